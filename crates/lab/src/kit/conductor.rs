//! Start, end and faults of a run, for the thread that requested it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use daiko_sys::Scope;
use daiko_sys::lock::{Lock, Tally};

use super::failure::Failure;

/// State shared by the threads of a ring, in one or several processes, and the thread that waits
/// for its end.
#[derive(Debug)]
pub(crate) struct Conductor {
    halted: AtomicBool,
    arrived: AtomicUsize,
    /// Incremented by the last thread that arrives.
    assembled: Tally,
    /// Incremented by the leader at its end, and by a thread that finds a fault.
    ends: Tally,
    /// Result of the first thread that reported an end.
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
    /// Whether all threads are to end. A thread checks it after each wait.
    #[inline]
    pub(crate) fn halted(&self) -> bool {
        // Pairs with the Release in `halt`.
        self.halted.load(Ordering::Acquire)
    }

    /// Tells all threads to end. The caller must rouse waiting threads after this.
    pub(crate) fn halt(&self) {
        // Pairs with the Acquire in `halted`.
        self.halted.store(true, Ordering::Release);
    }

    /// Records an arrival. Each of `threads` threads calls it before its first wait.
    pub(crate) fn arrive(&self, threads: usize) {
        // AcqRel: the actions of every thread before its arrival happen before the last thread
        // notifies the waiting conductor.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == threads {
            self.assembled.add();
        }
    }

    /// Waits until all threads have arrived.
    pub(crate) fn wait_assembled(&self) {
        self.assembled.wait(1, None);
    }

    /// Waits by polling until `count` threads have arrived. For a set of threads that never became
    /// complete.
    pub(crate) fn wait_arrived(&self, count: usize) {
        // Pairs with the AcqRel in `arrive`.
        while self.arrived.load(Ordering::Acquire) < count {
            std::thread::yield_now();
        }
    }

    /// Reports the end of the ring, or its first fault.
    pub(crate) fn report(&self, result: Result<(), Failure>) {
        self.result.lock().get_or_insert(result);
        self.ends.add();
    }

    /// Waits for the end of the ring, at most `limit`, and tells all threads to end.
    pub(crate) fn wait_over(&self, limit: Duration) -> Result<(), Failure> {
        self.ends.wait(1, Instant::now().checked_add(limit));
        self.halt();
        self.result.lock().clone().unwrap_or(Ok(()))
    }
}
