//! The monitor's part of a runtime, and its report of a stuck worker.

use std::panic::Location;

use daiko_core::monitor::{MonitorSleep, MonitorWas};
use daiko_sys::{Scope, futex};

/// A worker that has been in one fiber for long, as reported to
/// [`RuntimeBuilder::on_stuck`](crate::RuntimeBuilder::on_stuck).
#[derive(Debug)]
#[non_exhaustive]
pub struct Stuck {
    /// The worker, counted from 0.
    pub worker: usize,
    /// The name of the fiber on the worker.
    pub fiber: Option<String>,
    /// The source location that spawned that fiber.
    pub spawned_at: &'static Location<'static>,
    /// True if its thread is blocked in a futex: if a fiber listed below holds the lock, for ever.
    pub in_futex: bool,
    /// Names (or else the source locations of the spawn) of the worker's suspended fibers, at most
    /// 16, if it is blocked in a futex: one of them may hold the lock that it waits for.
    pub suspended: Vec<String>,
}

/// The user's hook for such a report.
pub(crate) type StuckHook = Box<dyn Fn(&Stuck) + Send + Sync>;

/// The monitor's part of the runtime.
pub(crate) struct Monitor {
    pub(super) sleep: MonitorSleep,
    /// The futex scope of the word in `sleep`: workers wake the monitor thread.
    pub(super) scope: Scope,
}

impl Monitor {
    pub(crate) fn new(scope: Scope) -> Self {
        Monitor { sleep: MonitorSleep::new(), scope }
    }

    /// Counts out a worker that is about to sleep until it is unparked.
    pub(crate) fn worker_parks(&self) {
        self.sleep.worker_parks();
    }

    /// Counts in a worker that runs, again or for the first time.
    pub(crate) fn worker_runs(&self) {
        if self.sleep.worker_runs() == MonitorWas::Asleep {
            self.wake();
        }
    }

    fn wake(&self) {
        futex::wake(self.sleep.word(), 1, self.scope);
    }

    /// Makes the monitor's thread end.
    pub(crate) fn end(&self) {
        self.sleep.end();
        self.wake();
    }
}
