//! The holders of locks and of one-time initializations, while they are tracked.
//!
//! One table for the process, as locks belong to no runtime. It neither allocates nor grows: a lock
//! has a set of slots by its address, and a lock that finds no free slot there is not known.
//! Debuggers read it, too.

use std::panic::Location;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use daiko_core::field;
use daiko_core::inspect::HeldLayout;
use daiko_sys::thread;

use super::tracking::is_tracking;
use crate::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::{notes, worker};

/// Number of locks of one set that are known at a time.
const SLOTS: usize = 8;
const SETS: usize = 512;

static LOCKS: HeldLocks = HeldLocks::new();

/// A lock with a holder.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    lock: usize,
    pub by: Who,
    pub(super) at: &'static Location<'static>,
}

/// A holder of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The fiber with the control block at this address.
    Fiber(usize),
    /// The thread with this id of the kernel, while it runs no fiber.
    Thread(u32),
}

impl Who {
    fn calls() -> Who {
        match worker::try_caller() {
            Some((_, fiber)) => Who::Fiber(ptr::from_ref(fiber).addr()),
            None => Who::Thread(thread::id()),
        }
    }

    /// The bit of a thread; a fiber's address is even.
    const THREAD: u64 = 1;

    fn packed(self) -> u64 {
        match self {
            Who::Fiber(id) => id as u64,
            Who::Thread(id) => u64::from(id) << 1 | Self::THREAD,
        }
    }

    fn unpacked(word: u64) -> Who {
        match word & Self::THREAD {
            0 => Who::Fiber(word as usize),
            _ => Who::Thread((word >> 1) as u32),
        }
    }
}

/// Notes, if locks are tracked, that the caller has taken the lock at this address, and is its only
/// holder. Returns true if noted: then [`freed`] must be called before the lock is free.
#[inline]
#[track_caller]
#[must_use = "a note has to be removed"]
pub fn taken(lock: usize) -> bool {
    let noted = is_tracking();
    if noted {
        note(lock, Location::caller());
    }
    noted
}

/// Removes the note of [`taken`]. Any holder of the lock may call it.
#[cold]
#[inline(never)]
pub fn freed(lock: usize) {
    LOCKS.strike_out(lock);
}

/// Keeps the caller from waiting for itself, if locks are tracked.
///
/// # Panics
///
/// If the caller holds the lock at this address; the panic names the lock.
#[track_caller]
pub fn assert_not_held(lock: usize, operation: &str) {
    if is_tracking()
        && let Some(held) = holder(lock)
        && held.by == Who::calls()
    {
        panic!("daiko: {operation} was locked again by its holder, which locked it at {}", held.at);
    }
}

#[cold]
#[inline(never)]
fn note(lock: usize, at: &'static Location<'static>) {
    LOCKS.note(Held { lock, by: Who::calls(), at });
}

/// Returns the holder of the lock at this address, as far as that is known.
pub fn holder(lock: usize) -> Option<Held> {
    LOCKS.holder(lock)
}

/// A place for a lock. Written under the mutex of its set.
#[repr(C)]
struct HeldSlot {
    /// The address of the lock; 0: the slot is free. The last word to be written, and the first to
    /// be cleared, as debuggers read without the mutex.
    lock: AtomicU64,
    /// The holder, packed.
    by: AtomicU64,
    at: AtomicPtr<Location<'static>>,
}

impl HeldSlot {
    const fn new() -> Self {
        let at = AtomicPtr::new(ptr::null_mut());
        HeldSlot { lock: AtomicU64::new(0), by: AtomicU64::new(0), at }
    }

    fn get(&self) -> Option<Held> {
        let lock = self.lock.load(Ordering::Relaxed) as usize;
        // SAFETY: null, or a place that lives as long as the process.
        let at = unsafe { self.at.load(Ordering::Relaxed).as_ref() };
        let by = Who::unpacked(self.by.load(Ordering::Relaxed));
        at.filter(|_| lock != 0).map(|at| Held { lock, by, at })
    }

    fn set(&self, held: Held) {
        self.clear();
        self.by.store(held.by.packed(), Ordering::Relaxed);
        self.at.store(ptr::from_ref(held.at).cast_mut(), Ordering::Relaxed);
        // Release: a debugger that finds the lock finds its holder.
        self.lock.store(held.lock as u64, Ordering::Release);
    }

    fn clear(&self) {
        self.lock.store(0, Ordering::Relaxed);
    }
}

/// The slots of the locks with one hash.
#[repr(C)]
struct HeldSet {
    slots: [HeldSlot; SLOTS],
    mutex: Mutex<()>,
}

impl HeldSet {
    const fn new() -> Self {
        HeldSet { slots: [const { HeldSlot::new() }; SLOTS], mutex: Mutex::new(()) }
    }
}

#[repr(C)]
struct HeldLocks([HeldSet; SETS]);

/// The layout of the table, for debuggers.
pub(crate) const LAYOUT: HeldLayout = HeldLayout {
    notes: notes::ADDRESS,
    notes_locks: notes::LOCKS as u64,
    sets: (&raw const LOCKS).cast(),
    set_count: SETS as u64,
    set_bytes: size_of::<HeldSet>() as u64,
    slots: field!(HeldSet, slots),
    slot_bytes: size_of::<HeldSlot>() as u64,
    lock: field!(HeldSlot, lock),
    by: field!(HeldSlot, by),
    at: field!(HeldSlot, at),
    by_thread: Who::THREAD,
};

impl HeldLocks {
    const fn new() -> Self {
        HeldLocks([const { HeldSet::new() }; SETS])
    }

    fn note(&self, held: Held) {
        let (_guard, slots) = self.set_of(held.lock);
        // A forgotten guard leaves its slot behind, and the address may be another lock's now.
        let known = slots.iter().find(|slot| slot.get().is_some_and(|of| of.lock == held.lock));
        if let Some(slot) = known.or_else(|| slots.iter().find(|slot| slot.get().is_none())) {
            slot.set(held);
        }
    }

    fn strike_out(&self, lock: usize) {
        let (_guard, slots) = self.set_of(lock);
        let of_lock = slots.iter().filter(|slot| slot.get().is_some_and(|of| of.lock == lock));
        of_lock.for_each(HeldSlot::clear);
    }

    fn holder(&self, lock: usize) -> Option<Held> {
        let (_guard, slots) = self.set_of(lock);
        slots.iter().filter_map(HeldSlot::get).find(|held| held.lock == lock)
    }

    fn set_of(&self, lock: usize) -> (MutexGuard<'_, ()>, &[HeldSlot; SLOTS]) {
        // Fibonacci hashing, by the upper bits: locks lie at multiples of 8.
        let hash = (lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = &self.0[(hash >> (u64::BITS - SETS.ilog2())) as usize];
        (set.mutex.lock().unwrap_or_else(PoisonError::into_inner), &set.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an entry; `by` is the holder's number.
    fn held(lock: usize, by: u32) -> Held {
        Held { lock, by: Who::Thread(by), at: Location::caller() }
    }

    /// Returns `count` locks that fall into one set.
    fn locks_of_one_set(table: &HeldLocks, count: usize) -> Vec<usize> {
        let set = |lock| ptr::from_ref(table.set_of(lock).1).addr();
        let first = set(8);
        (1..).map(|n| 8 * n).filter(|&lock| set(lock) == first).take(count).collect()
    }

    #[test]
    fn locks_are_held_until_freed_and_unknown_without_room() {
        let table = HeldLocks::new();
        let locks = locks_of_one_set(&table, SLOTS + 1);
        let known = |lock: &usize| table.holder(*lock).is_some();
        (0..).zip(&locks).for_each(|(by, &lock)| table.note(held(lock, by)));
        assert!(locks[..SLOTS].iter().all(known) && !known(&locks[SLOTS]));
        assert_eq!(table.holder(locks[3]).unwrap().by, Who::Thread(3));
        table.strike_out(locks[SLOTS]);
        table.strike_out(locks[3]);
        assert!(!known(&locks[3]));
        table.note(held(locks[SLOTS], 7));
        assert!(known(&locks[SLOTS]) && !known(&locks[3]));
        locks.iter().for_each(|&lock| table.strike_out(lock));
        assert!(!locks.iter().any(known));
    }

    #[test]
    fn a_new_holder_replaces_a_holder_that_forgot_the_lock() {
        let table = HeldLocks::new();
        table.note(held(8, 1));
        table.note(held(8, 2));
        assert_eq!(table.holder(8).unwrap().by, Who::Thread(2));
        table.strike_out(8);
        assert!(table.holder(8).is_none());
    }
}
