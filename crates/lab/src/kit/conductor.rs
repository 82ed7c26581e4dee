//! Start, end and faults of a run, seen by the thread that asked for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use daiko_sys::Scope;
use daiko_sys::lock::{Lock, Tally};

use super::failure::Failure;

/// Shared by the threads of a ring, which may be those of several processes, and the one that waits for its end.
#[derive(Debug)]
pub(crate) struct Conductor {
    halted: AtomicBool,
    arrived: AtomicUsize,
    /// The last thread that arrived counts.
    assembled: Tally,
    /// The leader counts at its end, and who finds a fault.
    ends: Tally,
    /// The first of these says what came of it.
    result: Lock<Option<Result<(), Failure>>>,
}

impl Default for Conductor {
    fn default() -> Self {
        Self {
            halted: AtomicBool::new(false),
            arrived: AtomicUsize::new(0),
            assembled: Tally::new(Scope::Shared),
            ends: Tally::new(Scope::Shared),
            result: Lock::new(Scope::Shared, None),
        }
    }
}

impl Conductor {
    /// Whether all are to end; a thread asks after each wait.
    #[inline]
    pub(crate) fn halted(&self) -> bool {
        // Pairs with the Release in `halt`.
        self.halted.load(Ordering::Acquire)
    }

    /// Tells all to end. Who waits has to be roused after this.
    pub(crate) fn halt(&self) {
        // Pairs with the Acquire in `halted`.
        self.halted.store(true, Ordering::Release);
    }

    /// Called by each of `threads` threads when it is about to wait for the
    /// first time.
    pub(crate) fn arrive(&self, threads: usize) {
        // AcqRel: what every thread did before it arrived happens before what
        // the last one tells the waiting conductor.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == threads {
            self.assembled.add();
        }
    }

    /// Waits until all threads have arrived.
    pub(crate) fn wait_assembled(&self) {
        self.assembled.wait(1, None);
    }

    /// Waits until `count` threads have arrived, without being told: for a set
    /// of threads that never became complete.
    pub(crate) fn wait_arrived(&self, count: usize) {
        // Pairs with the AcqRel in `arrive`.
        while self.arrived.load(Ordering::Acquire) < count {
            std::thread::yield_now();
        }
    }

    /// Reports the end, or the first fault, of the ring.
    pub(crate) fn report(&self, result: Result<(), Failure>) {
        self.result.lock().get_or_insert(result);
        self.ends.add();
    }

    /// Waits for the end of the ring, at most `limit`, and tells all to end.
    pub(crate) fn wait_over(&self, limit: Duration) -> Result<(), Failure> {
        self.ends.wait(1, Instant::now().checked_add(limit));
        self.halt();
        self.result.lock().clone().unwrap_or(Ok(()))
    }
}
