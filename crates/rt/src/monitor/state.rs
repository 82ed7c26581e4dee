//! The monitor's part of a runtime.

use std::time::Duration;

use daiko_core::monitor::{MonitorAlarm, SOON, Timer};
use daiko_sys::alarm::Alarm;
use daiko_sys::clock;

use super::report::Stuck;
use crate::atomic::{AtomicBool, Ordering};
use crate::deadline::Deadline;

/// The user's hook for such a report.
pub(crate) type StuckHook = Box<dyn Fn(&Stuck) + Send + Sync>;

/// The monitor's part of the runtime.
pub(crate) struct Monitor {
    alarm: MonitorAlarm,
    timer: MonitorTimer,
}

/// The timer that the monitor thread sleeps on, unless its end has come.
struct MonitorTimer {
    /// Worker processes have inherited its descriptor. Without one, the monitor thread looks for
    /// ever.
    kernel: Option<Alarm>,
    ends: AtomicBool,
}

/// Maximum time between two looks after a long time without an event. Each look costs the CPU two
/// context switches; at every period, they would cost a server that has the CPU alone 4% of its
/// requests.
pub(super) const LONGEST_PERIOD: Duration = SOON;

impl Timer for MonitorTimer {
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn ring_at(&self, due_ns: u64) {
        let Some(kernel) = &self.kernel else { return };
        kernel.ring(due_ns);
        // A setting that the kernel has put behind the one of `end` comes behind its store, too.
        if self.is_ending() {
            kernel.ring(0);
        }
    }
}

impl MonitorTimer {
    fn is_ending(&self) -> bool {
        // Relaxed: ordered by the kernel; the thread is joined, and nothing is handed over.
        self.ends.load(Ordering::Relaxed)
    }
}

impl Monitor {
    /// Creates the monitor's part of a runtime without workers.
    pub(crate) fn new() -> Self {
        let timer = MonitorTimer { kernel: Alarm::new().ok(), ends: AtomicBool::new(false) };
        Monitor { alarm: MonitorAlarm::new(), timer }
    }

    /// Counts out a worker that runs no fiber until it is counted in.
    pub(crate) fn worker_parks(&self) {
        self.alarm.worker_parks(&self.timer);
    }

    /// Counts in a worker that runs, again or for the first time.
    pub(crate) fn worker_runs(&self) {
        self.alarm.worker_runs(&self.timer);
    }

    /// Sleeps for a `period`, or while no worker runs; false if the monitor shall end. Only the
    /// monitor thread, which has just looked.
    ///
    /// Calls `idle` while no worker runs; it returns the time after which it is to be called again,
    /// if at all.
    pub(super) fn sleep(
        &self,
        period: Duration,
        mut idle: impl FnMut() -> Option<Duration>,
    ) -> bool {
        let timer = &self.timer;
        let Some(kernel) = &timer.kernel else {
            std::thread::sleep(period);
            return !timer.is_ending();
        };
        if self.alarm.may_sleep(clock::monotonic_ns()) {
            while !kernel.wait(idle().map_or(Deadline::NEVER, Deadline::after).ns()) {}
        } else {
            let due = Deadline::after(period);
            while !due.is_over() && !timer.is_ending() {
                kernel.wait(due.ns());
            }
        }
        !timer.is_ending()
    }

    /// Makes the monitor's thread end.
    pub(crate) fn end(&self) {
        self.timer.ends.store(true, Ordering::Relaxed);
        self.timer.ring_at(0);
    }
}
