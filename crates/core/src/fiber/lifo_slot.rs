//! The LIFO slot: the fiber that a worker runs next, written by plain stores of the owner, yet
//! stealable.
//!
//! README.md beside this file has the protocol.

use std::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, Ordering, const_fn};
use crate::lock::Contender;

/// Low bit of the slot: thieves may take the fiber.
const STEALABLE: usize = 1;
/// Thief word: no thief is at work.
const IDLE: usize = 0;
/// Bit of the thief word: a thief looks at the slot and has not decided; the other bits identify
/// it.
const FROZEN: usize = 2;
/// The thief's id stands above the bits.
const MARK_SHIFT: u32 = 2;

/// The way the owner writes its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Plain loads and stores; a thief pays a process-wide barrier (`membarrier`).
    Plain,
    /// Exchanges, where that barrier is missing.
    Exchange,
}

/// A fiber on its way to run, and whether thieves may take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifoEntry<T> {
    /// The fiber.
    pub fiber: NonNull<T>,
    /// True if another worker may run it.
    pub stealable: bool,
}

impl<T> LifoEntry<T> {
    fn pack(self) -> *mut T {
        self.fiber.as_ptr().map_addr(|addr| addr | if self.stealable { STEALABLE } else { 0 })
    }

    fn unpack(word: *mut T) -> Option<Self> {
        NonNull::new(word.map_addr(|addr| addr & !STEALABLE))
            .map(|fiber| LifoEntry { fiber, stealable: word.addr() & STEALABLE != 0 })
    }
}

/// The LIFO slot of one worker. `T` is aligned to at least 4.
///
/// Budget of the owner, plain: a load, a store, a load, all on one line that it owns. Budget of the
/// thief: two RMWs and one process-wide barrier.
pub struct LifoSlot<T> {
    access: Access,
    /// Written by the owner; thieves only read it (plain access) or empty it (exchange).
    slot: AtomicPtr<T>,
    /// IDLE; FROZEN with the id of the thief at work; or the fiber that a thief has taken and the
    /// owner has not yet noticed.
    thief: AtomicPtr<T>,
}

// SAFETY: the slot hands pointers over, published by Release and Acquire; the users of `T` answer
// for the accesses to a `T` behind them.
unsafe impl<T> Send for LifoSlot<T> {}
// SAFETY: as for Send; all access is atomic.
unsafe impl<T> Sync for LifoSlot<T> {}

impl<T> LifoSlot<T> {
    const_fn! {
        /// Creates an empty slot.
        pub const fn new(access: Access) -> Self {
            const { assert!(align_of::<T>() > STEALABLE | FROZEN) };
            LifoSlot {
                access,
                slot: AtomicPtr::new(ptr::null_mut()),
                thief: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Returns true if the slot is empty. Only the owner fills the slot, so for the owner an empty
    /// slot stays empty. A thief may empty it at any time.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slot.load(Ordering::Relaxed).is_null()
    }

    /// Puts `new` in, or empties the slot. Returns the entry that was there, if it still is the
    /// owner's.
    ///
    /// Only the owner calls it.
    #[inline]
    pub fn replace(&self, new: Option<LifoEntry<T>>) -> Option<LifoEntry<T>> {
        let new = new.map_or(ptr::null_mut(), LifoEntry::pack);
        if self.access == Access::Exchange {
            // AcqRel: Release pairs with the Acquire of the CAS in `steal_exchange`, Acquire with
            // its Release.
            return LifoEntry::unpack(self.slot.swap(new, Ordering::AcqRel));
        }
        let old = self.slot.load(Ordering::Relaxed);
        // Release: pairs with the Acquire load in `steal`.
        self.slot.store(new, Ordering::Release);
        owner_barrier();
        if self.thief.load(Ordering::Relaxed).addr() != IDLE {
            return self.replace_slow(old, new);
        }
        LifoEntry::unpack(old)
    }

    /// Finds out which of `old` and `new` a thief has taken: a thief is or was at work.
    #[cold]
    fn replace_slow(&self, old: *mut T, new: *mut T) -> Option<LifoEntry<T>> {
        // Acquire: pairs with the Release of the CAS in `steal`, the thief's decision. Release:
        // pairs with the Acquire of the freeze in `steal`, so that a later thief comes after this
        // theft.
        let thief = self.thief.swap(ptr::null_mut(), Ordering::AcqRel);
        if thief.addr() == IDLE || thief.addr() & FROZEN != 0 {
            return LifoEntry::unpack(old);
        }
        // `old` is compared first: if the same fiber came back and is `new`, it was `old` that
        // left.
        if ptr::eq(thief, old) {
            return None;
        }
        debug_assert!(ptr::eq(thief, new), "a thief takes the fiber in the slot");
        self.slot.store(ptr::null_mut(), Ordering::Relaxed);
        LifoEntry::unpack(old)
    }

    /// Returns true if `fiber` is in the slot and stays until the owner takes or replaces it: it is
    /// not stealable. Only the owner calls it.
    #[inline]
    pub fn holds(&self, fiber: NonNull<T>) -> bool {
        // The entry of a fiber that is not stealable is the bare address.
        ptr::eq(self.slot.load(Ordering::Relaxed), fiber.as_ptr())
    }

    /// Returns the stealable fiber in the slot, for a thief that watches whether it changes.
    pub fn peek(&self) -> Option<NonNull<T>> {
        LifoEntry::unpack(self.slot.load(Ordering::Relaxed))
            .filter(|entry| entry.stealable)
            .map(|entry| entry.fiber)
    }

    /// Takes the stealable fiber, on behalf of another worker.
    ///
    /// `barrier` must make every other thread that may be the owner's pass a full memory barrier
    /// between its call and its return: `membarrier`'s PRIVATE_EXPEDITED, or GLOBAL_EXPEDITED where
    /// owners are other processes. It is called only for plain access.
    pub fn steal(&self, by: &impl Contender, barrier: impl FnOnce()) -> Option<NonNull<T>> {
        if self.access == Access::Exchange {
            return self.steal_exchange();
        }
        // A contender has at most one theft under way. If the marks were equal, a slow thief could
        // take the next thief's mark for its own after the owner has removed its mark, and with it
        // a fiber that the owner has long been running. The address of a local would not do: forked
        // processes have their stacks at one place.
        let thief = if cfg!(weaken = "next-slot-mark") { 0 } else { by.id().get() as usize };
        let frozen = ptr::without_provenance_mut(thief << MARK_SHIFT | FROZEN);
        // Acquire: pairs with the Release of the owner's swap that ended the theft before this one.
        self.thief
            .compare_exchange(ptr::null_mut(), frozen, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        if !cfg!(weaken = "next-slot") {
            barrier();
        }
        // From here on, an owner that changes the slot sees FROZEN afterwards and undoes it.
        // Acquire: pairs with the Release store in `replace`.
        let word = self.slot.load(Ordering::Acquire);
        let found = LifoEntry::unpack(word).filter(|entry| entry.stealable);
        let taken = if found.is_some() { word } else { ptr::null_mut() };
        // Release: pairs with the Acquire of the owner's swap in `replace_slow`.
        self.thief.compare_exchange(frozen, taken, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        found.map(|entry| entry.fiber)
    }

    fn steal_exchange(&self) -> Option<NonNull<T>> {
        let word = self.slot.load(Ordering::Relaxed);
        let entry = LifoEntry::unpack(word).filter(|entry| entry.stealable)?;
        if cfg!(weaken = "next-slot-exchange") {
            self.slot.store(ptr::null_mut(), Ordering::Release);
            return Some(entry.fiber);
        }
        // Acquire: pairs with the Release half of the owner's swap in `replace`. ABA is harmless:
        // the same fiber back in the slot is as good.
        self.slot
            .compare_exchange(word, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .ok()
            .map(|_| entry.fiber)
    }
}

/// Orders the owner's store to the slot before its load of the thief word.
///
/// A compiler barrier is enough, since the thief's barrier holds back the processor. Loom knows no
/// such barrier; there both sides use a full fence.
#[inline]
fn owner_barrier() {
    #[cfg(not(loom))]
    crate::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    crate::atomic::fence(Ordering::SeqCst);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::lock::testing::Tester;

    fn entry(value: &u64, stealable: bool) -> LifoEntry<u64> {
        LifoEntry { fiber: NonNull::from(value), stealable }
    }

    #[test]
    fn the_owner_gets_the_displaced_fiber_back() {
        let (a, b) = (1, 2);
        for access in [Access::Plain, Access::Exchange] {
            let slot = LifoSlot::new(access);
            assert_eq!(slot.replace(Some(entry(&a, false))), None);
            assert_eq!(slot.replace(Some(entry(&b, true))), Some(entry(&a, false)));
            assert_eq!(slot.replace(None), Some(entry(&b, true)));
            assert_eq!(slot.replace(None), None);
        }
    }

    #[test]
    fn a_thief_takes_only_stealable_fibers_and_the_owner_notices() {
        let (a, b) = (1, 2);
        for access in [Access::Plain, Access::Exchange] {
            let slot = LifoSlot::new(access);
            assert_eq!(slot.replace(Some(entry(&a, false))), None);
            assert_eq!(slot.peek(), None);
            assert_eq!(slot.steal(&Tester(1), || ()), None);
            assert_eq!(slot.replace(Some(entry(&b, true))), Some(entry(&a, false)));
            assert_eq!(slot.peek(), Some(NonNull::from(&b)));
            assert_eq!(slot.steal(&Tester(1), || ()), Some(NonNull::from(&b)));
            assert_eq!(slot.steal(&Tester(1), || ()), None);
            assert_eq!(slot.replace(Some(entry(&b, true))), None, "the stolen fiber came back");
            assert_eq!(slot.replace(None), Some(entry(&b, true)));
        }
    }
}
