//! The references to a fiber's memory, and the worker that a handle remembers.

use std::ptr;

use crate::atomic::{
    AtomicPtr, AtomicU32, Ordering, acquire_fence, const_fn, read_alone, unless_weakened,
};

/// The word of [`Refs`].
///
/// ```text
/// 31       30         0
/// | INLINE | references |
///
/// INLINE: a handle that may have sent inline messages has been dropped
/// ```
#[derive(Clone, Copy)]
struct RefsWord(u32);

impl RefsWord {
    const INLINE: u32 = 1 << 31;

    #[inline(always)]
    fn count(self) -> u32 {
        if cfg!(weaken = "refs-inline-counted") { self.0 } else { self.0 & !Self::INLINE }
    }

    #[inline(always)]
    fn has_inline(self) -> bool {
        self.0 & Self::INLINE != 0
    }
}

/// The number of references to a fiber: its handles, and the fiber itself until it has left its
/// stack. At 0 no fiber uses the memory.
///
/// Budget: one RMW to retain; none to release the last reference, else one.
#[derive(Debug)]
#[repr(transparent)]
pub struct Refs(AtomicU32);

/// The consequence of a dropped reference.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// There are other references.
    Kept,
    /// It was the last reference: the caller frees the memory.
    Last,
    /// It was the last reference. The caller frees the memory after all inline messages that may be
    /// on their way to the worker where the fiber ended.
    LastAfterInline,
}

impl Refs {
    /// The most references. So many more would not reach the bit above, so that each thread may add
    /// a reference before it looks.
    pub const MOST: u32 = 1 << 30;
    /// The bits that count, for debuggers.
    pub const COUNT: u64 = !RefsWord::INLINE as u64;

    const_fn! {
        /// Creates the word of memory that no fiber uses.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Refs(AtomicU32::new(0))
        }
    }

    /// Sets the references of a new fiber: its own, and that of its first handle. Only the thread
    /// that prepares the memory.
    #[inline]
    pub fn begin(&self) {
        // Release: pairs with the Acquire in `is_used`. A reader that sees the references sees the
        // words of the new fiber, not of the one that used the memory before.
        self.0.store(2, unless_weakened!("refs-begin", Ordering::Release));
    }

    /// Returns true if a fiber uses the memory.
    #[inline]
    pub fn is_used(&self) -> bool {
        // Acquire: pairs with the Release in `begin`.
        self.0.load(Ordering::Acquire) != 0
    }

    /// Adds a reference. The caller has one.
    ///
    /// `overflow` must end the process. A panic could be caught, and the reference that was added
    /// would stay.
    #[inline]
    pub fn retain(&self, overflow: fn() -> !) {
        // Relaxed: the new reference reaches another thread by means of the caller's choice.
        let before = RefsWord(self.0.fetch_add(1, Ordering::Relaxed));
        if before.count() >= Self::MOST {
            overflow();
        }
    }

    /// Drops the reference of a handle that may have sent inline messages.
    pub fn release_after_inline(&self) -> Released {
        if !cfg!(weaken = "refs-inline") {
            // Relaxed: the last drop sees the bit, as it comes later in the order of this word.
            self.0.fetch_or(RefsWord::INLINE, Ordering::Relaxed);
        }
        self.release()
    }

    /// Drops a reference.
    #[inline]
    pub fn release(&self) -> Released {
        // Acquire: pairs with the Release of all earlier drops, if this is the last reference. No
        // thread can make a new handle then, so the RMW is not needed.
        let mut word = RefsWord(self.0.load(unless_weakened!("refs-last", Ordering::Acquire)));
        if word.count() != 1 {
            // Release: pairs with the Acquire above or below in the last drop.
            let release = unless_weakened!("refs-release", Ordering::Release);
            word = RefsWord(self.0.fetch_sub(1, release));
            if word.count() != 1 {
                return Released::Kept;
            }
            if !cfg!(weaken = "refs-fence") {
                // Acquire: pairs with the Release of all earlier drops.
                acquire_fence(|acquire| self.0.load(acquire));
            }
        }
        self.end();
        if word.has_inline() { Released::LastAfterInline } else { Released::Last }
    }

    /// Drops all references. Only the thread that has the memory alone.
    #[inline]
    pub fn end(&self) {
        // Relaxed: the memory is handed on by the pool that gets it.
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The worker that a handle remembers: null until it has seen its fiber pinned there. It spares an
/// unpark from another worker the look at the fiber, a line of that other worker.
///
/// All accesses are relaxed. A pinned fiber keeps its worker, so that the worker is right once it
/// is not null. A thread that has the handle has seen the fiber spawned, and so the workers of its
/// runtime, which live as long as the fiber's memory.
pub struct HomeHint<W>(AtomicPtr<W>);

impl<W> HomeHint<W> {
    const_fn! {
        /// Creates the word of a handle that has not seen its fiber pinned.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            HomeHint(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Returns the worker to which the fiber is pinned; null: not known.
    #[inline(always)]
    pub fn get(&self) -> *const W {
        self.0.load(Ordering::Relaxed)
    }

    /// Remembers that the fiber is pinned to `worker`. From here on the handle may send inline
    /// messages, and is dropped by [`Refs::release_after_inline`].
    pub fn remember(&self, worker: *const W) {
        self.0.store(worker.cast_mut(), Ordering::Relaxed);
    }

    /// Returns true if the handle, which is dropped, may have sent inline messages.
    #[inline(always)]
    pub fn is_known(&mut self) -> bool {
        !read_alone(&mut self.0).is_null()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn overflow() -> ! {
        panic!("too many")
    }

    #[test]
    fn the_last_drop_is_told() {
        let refs = Refs::new();
        assert!(!refs.is_used());
        refs.begin();
        refs.retain(overflow);
        assert_eq!([(); 2].map(|()| refs.release()), [Released::Kept; 2]);
        assert!(refs.is_used());
        assert_eq!(refs.release(), Released::Last);
        assert!(!refs.is_used());
    }

    #[test]
    fn inline_messages_of_any_handle_are_told_to_the_last_drop() {
        for first in [true, false] {
            let refs = Refs::new();
            refs.begin();
            let drops = [first, !first].map(|sent| match sent {
                true => refs.release_after_inline(),
                false => refs.release(),
            });
            assert_eq!(drops, [Released::Kept, Released::LastAfterInline]);
            assert!(!refs.is_used());
            refs.begin();
            assert_eq!([(); 2].map(|()| refs.release()), [Released::Kept, Released::Last]);
        }
    }

    #[test]
    fn the_most_references_leave_the_bit_of_inline_messages_alone() {
        let refs = Refs::new();
        refs.0.store((Refs::MOST - 1) | RefsWord::INLINE, Ordering::Relaxed);
        refs.retain(overflow);
        assert_eq!(refs.0.load(Ordering::Relaxed), Refs::MOST | RefsWord::INLINE);
        let more = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| refs.retain(overflow)));
        assert!(more.is_err());
    }

    #[test]
    fn a_handle_has_sent_inline_messages_once_it_knows_the_worker() {
        let (mut home, worker) = (HomeHint::<u32>::new(), 7);
        assert!(home.get().is_null() && !home.is_known());
        home.remember(&raw const worker);
        assert!(ptr::eq(home.get(), &raw const worker) && home.is_known());
    }
}
