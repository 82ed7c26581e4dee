//! Start, end and faults of a run, seen by the thread that asked for it.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::Failure;

/// Shared by the threads of a ring and the one that waits for its end.
#[derive(Debug, Default)]
pub(crate) struct Conductor {
    halted: AtomicBool,
    arrived: AtomicUsize,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Stage {
    /// Set by the last thread that arrived.
    assembled: bool,
    /// Set by the leader at its end, or by who found a fault.
    over: Option<Result<(), Failure>>,
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
            self.tell(|stage| stage.assembled = true);
        }
    }

    /// Waits until all threads have arrived.
    pub(crate) fn wait_assembled(&self) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(stage, |stage| !stage.assembled));
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
        self.tell(|stage| {
            stage.over.get_or_insert(result);
        });
    }

    fn tell(&self, change: impl FnOnce(&mut Stage)) {
        change(&mut self.stage.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for the end of the ring, at most `limit`, and tells all to end.
    pub(crate) fn wait_over(&self, limit: Duration) -> Result<(), Failure> {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let (stage, _) = self
            .changed
            .wait_timeout_while(stage, limit, |stage| stage.over.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        self.halt();
        stage.over.clone().unwrap_or(Ok(()))
    }
}
