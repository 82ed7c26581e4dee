//! The owner word: the worker that has a fiber, or the events that came before it had one.

use std::ptr;

use crate::atomic::{AtomicPtr, Ordering, const_fn, unless_weakened};

/// Bit beside the worker's address: the fiber ran to its end there.
const FINISHED: usize = 2;
/// The bits of [`Early`].
const EARLY: usize = 5;

/// A set of events that came for a fiber before its start.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Early(usize);

impl Early {
    /// No event.
    pub const NONE: Early = Early(0);
    /// An unpark.
    pub const UNPARK: Early = Early(1);
    /// A cancel.
    pub const CANCEL: Early = Early(4);

    /// Returns true if this set contains all events of `other`.
    #[inline]
    pub fn contains(self, other: Early) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The worker to which a fiber belongs.
///
/// | word | meaning |
/// |------|---------|
/// | 0 | unstarted |
/// | 1, 4, 5 | unstarted, and unparked, cancelled, both |
/// | address of a worker | started there; for a migratable fiber, the worker where it ran last |
/// | that + 2 | finished there |
pub struct OwnerWord<W>(AtomicPtr<W>);

/// The decoded word, as [`OwnerWord::load`] returns it.
#[derive(Debug, PartialEq, Eq)]
pub enum Owner<W> {
    /// No worker has started the fiber.
    Unstarted,
    /// This worker has started the fiber.
    Worker(*const W),
    /// The fiber ran to its end on this worker.
    Finished(*const W),
}

impl<W> OwnerWord<W> {
    /// The bits of early events, for debuggers.
    pub const EARLY: u64 = EARLY as u64;
    /// The bit of a fiber that has ended, for debuggers.
    pub const FINISHED: u64 = FINISHED as u64;

    const_fn! {
        /// Creates the word of an unstarted fiber.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            OwnerWord(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Resets the word for a new fiber. Only while no other thread can reach it.
    #[inline]
    pub fn reset(&self) {
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns true if `worker` owns the fiber: the first question of every wake.
    #[inline]
    pub fn is(&self, worker: *const W) -> bool {
        // Relaxed: if the word names the caller's worker, that worker wrote it itself.
        ptr::eq(self.0.load(Ordering::Relaxed), worker)
    }

    /// Returns the worker to which the fiber belongs.
    #[inline]
    pub fn load(&self) -> Owner<W> {
        // Acquire: pairs with the Release of the exchange in `start` and of the store in
        // `moved_to`. Both come after the reset of the run state, which the caller goes on to
        // touch.
        let word = self.0.load(unless_weakened!("owner-load", Ordering::Acquire));
        match word.addr() {
            addr if addr & !EARLY == 0 => Owner::Unstarted,
            addr if addr & FINISHED != 0 => Owner::Finished(word.map_addr(|addr| addr & !FINISHED)),
            _ => Owner::Worker(word),
        }
    }

    /// Gives the fiber to `worker`, which starts it, and returns the events that came before.
    #[inline]
    pub fn start(&self, worker: *const W) -> Early {
        // AcqRel: Acquire pairs with the Release in `leave_early`, Release with the Acquire in
        // `load`. An exchange, not a load and a store, which would lose an event in between.
        if cfg!(weaken = "owner-start") {
            let early = Early(self.0.load(Ordering::Acquire).addr());
            self.0.store(worker.cast_mut(), Ordering::Release);
            return early;
        }
        let ordering = unless_weakened!("owner-token", Ordering::AcqRel);
        Early(self.0.swap(worker.cast_mut(), ordering).addr())
    }

    /// Leaves `early` for the start. Returns false if the fiber has started meanwhile.
    #[must_use]
    pub fn leave_early(&self, early: Early) -> bool {
        if cfg!(weaken = "owner-token-again") && self.0.load(Ordering::Acquire).addr() == early.0 {
            return true;
        }
        let add = |word: *mut W| {
            let unstarted = word.addr() & !EARLY == 0;
            unstarted.then(|| ptr::without_provenance_mut(word.addr() | early.0))
        };
        // Release: pairs with the Acquire of the exchange in `start`. The word is written even if
        // it does not change, so that the start sees the writes before this call. Acquire on
        // failure: as in `load`, because the caller looks again.
        let failure = unless_weakened!("owner-late", Ordering::Acquire);
        self.0.fetch_update(Ordering::Release, failure, add).is_ok()
    }

    /// Records the worker on which a migratable fiber runs now. Only for the worker that runs it.
    #[inline]
    pub fn moved_to(&self, worker: *const W) {
        // Release: pairs with the Acquire in `load`. A thread that reads a worker from the word
        // thereby sees the fiber started.
        self.0.store(worker.cast_mut(), unless_weakened!("owner-moved", Ordering::Release));
    }

    /// Records that the fiber ran to its end on `worker`, which calls.
    #[inline]
    pub fn finish(&self, worker: *const W) {
        // Relaxed: a reader of FINISHED leaves the fiber alone. The thread that frees the fiber
        // learns of the end through the reference count.
        self.0.store(worker.cast_mut().map_addr(|addr| addr | FINISHED), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn requests_before_the_start_are_found_by_the_start() {
        let (word, worker) = (OwnerWord::<u64>::new(), 7);
        assert_eq!(word.load(), Owner::Unstarted);
        assert!(word.leave_early(Early::UNPARK));
        assert!(word.leave_early(Early::UNPARK));
        assert_eq!(word.load(), Owner::Unstarted);
        assert!(word.leave_early(Early::CANCEL));
        assert_eq!(word.load(), Owner::Unstarted);
        let early = word.start(&worker);
        assert!(early.contains(Early::UNPARK) && early.contains(Early::CANCEL));
        assert_eq!(word.load(), Owner::Worker(&raw const worker));
        assert!(!word.leave_early(Early::UNPARK));
        word.finish(&worker);
        assert_eq!(word.load(), Owner::Finished(&raw const worker));
        assert!(!word.is(&worker));
    }

    #[test]
    fn a_start_before_which_nothing_came_finds_nothing() {
        let (word, worker) = (OwnerWord::<u64>::new(), 7);
        assert_eq!(word.start(&worker), Early::NONE);
        assert!(word.is(&worker));
    }
}
