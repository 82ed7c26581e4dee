//! The monitor's part of a runtime.

use daiko_core::monitor::{MonitorSleep, MonitorWas};
use daiko_sys::{Scope, futex};

use super::report::Stuck;

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
