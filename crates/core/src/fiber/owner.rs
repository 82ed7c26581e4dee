//! The owner word: which worker has a fiber, and the unpark that came before it had one.

use std::ptr;

use crate::sync::{AtomicPtr, Ordering, const_fn, unless_weakened};

/// Low bit: an unpark came before the start.
const TOKEN: usize = 1;
/// Bit beside the worker's address: the fiber ran to its end there.
const FINISHED: usize = 2;

/// Where a fiber belongs.
///
/// | word | meaning |
/// |------|---------|
/// | 0 | unstarted |
/// | 1 | unstarted, and unparked |
/// | address of a worker | started there; of a mover: where it ran last |
/// | that + 2 | finished there |
pub struct OwnerWord<W>(AtomicPtr<W>);

/// What [`OwnerWord::load`] sees.
#[derive(Debug, PartialEq, Eq)]
pub enum Owner<W> {
    /// No worker has started the fiber.
    Unstarted,
    /// This worker has.
    Worker(*const W),
    /// It ran to its end there.
    Finished(*const W),
}

impl<W> OwnerWord<W> {
    const_fn! {
        /// The word of a fiber that nobody has started.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            OwnerWord(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Makes the word that of a new fiber. Only while no other thread can reach it.
    #[inline]
    pub fn reset(&self) {
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Whether `worker` owns the fiber: the first question of every wake.
    #[inline]
    pub fn is(&self, worker: *const W) -> bool {
        // Relaxed: if it is ours, we wrote it ourselves.
        ptr::eq(self.0.load(Ordering::Relaxed), worker)
    }

    /// Where the fiber belongs.
    #[inline]
    pub fn load(&self) -> Owner<W> {
        // Acquire: pairs with the exchange in `start`, which comes after the reset of the run
        // state that the caller goes on to touch.
        let word = self.0.load(Ordering::Acquire);
        match word.addr() {
            0 | TOKEN => Owner::Unstarted,
            addr if addr & FINISHED != 0 => Owner::Finished(word.map_addr(|addr| addr & !FINISHED)),
            _ => Owner::Worker(word),
        }
    }

    /// Gives the fiber to `worker`, which starts it; true if it was unparked before.
    #[must_use]
    #[inline]
    pub fn start(&self, worker: *const W) -> bool {
        // AcqRel: Acquire pairs with the Release in `unpark_unstarted`, Release with the Acquire
        // in `load`. An exchange, not load and store: an unpark in between would be lost.
        if cfg!(weaken = "owner-start") {
            let token = self.0.load(Ordering::Acquire).addr() == TOKEN;
            self.0.store(worker.cast_mut(), Ordering::Release);
            return token;
        }
        let ordering = unless_weakened!("owner-token", Ordering::AcqRel);
        self.0.swap(worker.cast_mut(), ordering).addr() == TOKEN
    }

    /// Leaves a token for the start; false if the fiber has started meanwhile.
    #[must_use]
    pub fn unpark_unstarted(&self) -> bool {
        if cfg!(weaken = "owner-token-again") && self.0.load(Ordering::Acquire).addr() == TOKEN {
            return true;
        }
        let add_token = |word: *mut W| {
            (word.addr() & !TOKEN == 0).then_some(ptr::without_provenance_mut(TOKEN))
        };
        // Release: pairs with the exchange in `start`; written also where a token is, so that what
        // came before this unpark is seen as well. Acquire on failure: as in `load`, for the caller
        // looks again.
        self.0.fetch_update(Ordering::Release, Ordering::Acquire, add_token).is_ok()
    }

    /// Says where a mover runs now. Only by the worker that runs it.
    #[inline]
    pub fn moved_to(&self, worker: *const W) {
        // Release: pairs with the Acquire in `load`; the word keeps its promise that whoever
        // reads a worker sees the fiber started.
        self.0.store(worker.cast_mut(), Ordering::Release);
    }

    /// The fiber ran to its end on `worker`, which calls.
    #[inline]
    pub fn finish(&self, worker: *const W) {
        // Relaxed: whoever reads it leaves the fiber alone, but for who frees it, to whom the end
        // came by the count of references.
        self.0.store(worker.cast_mut().map_addr(|addr| addr | FINISHED), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_unpark_before_the_start_is_found_by_the_start() {
        let (word, worker) = (OwnerWord::<u64>::new(), 7);
        assert_eq!(word.load(), Owner::Unstarted);
        assert!(word.unpark_unstarted());
        assert!(word.unpark_unstarted());
        assert_eq!(word.load(), Owner::Unstarted);
        assert!(word.start(&worker));
        assert_eq!(word.load(), Owner::Worker(&raw const worker));
        assert!(!word.unpark_unstarted());
        word.finish(&worker);
        assert_eq!(word.load(), Owner::Finished(&raw const worker));
        assert!(!word.is(&worker));
    }

    #[test]
    fn a_start_without_an_unpark_finds_none() {
        let (word, worker) = (OwnerWord::<u64>::new(), 7);
        assert!(!word.start(&worker));
        assert!(word.is(&worker));
    }
}
