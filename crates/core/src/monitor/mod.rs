//! The alarm that a monitor thread sleeps on while no worker runs.
//!
//! README.md beside this file has the states, the steps and the proof.

use std::time::Duration;

use crate::atomic::{AtomicU32, AtomicU64, Ordering, const_fn, fence, fence_behind_rmw};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Maximum time from the run of a worker, after a time in which none ran, to a look.
pub const SOON: Duration = Duration::from_millis(8);
/// Maximum time from one look to the next while workers park before the alarm rings.
const RARELY_NS: u64 = 1_000_000_000;
const SOON_NS: u64 = SOON.as_nanos() as u64;
/// Least time between two postponements: each, with the setting that follows it, costs two system
/// calls, which is less than a look; and the next comes before the timer rings.
const POSTPONE_NS: u64 = SOON_NS / 2;
/// Number of parks, each less than `SOON` after the last one that was counted, after which the
/// timer is not postponed: the workers are busy in spite of them.
const MOST_PARKS: u32 = 4;

/// A timer of the kernel, and its clock.
pub trait Timer {
    /// Returns the time, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Sets the timer, in place of an earlier setting. Calls are ordered as by a lock.
    fn ring_at(&self, due_ns: u64);
}

/// The number of workers that run, and the time at which the timer of the monitor thread rings.
///
/// Budget: a worker that parks or runs makes one RMW; if it is the last or the first, it reads the
/// clock, and sets the timer at most twice in 4 ms.
#[derive(Debug)]
pub struct MonitorAlarm {
    /// The number of workers that run. Each counts itself in and out.
    awake: AtomicU32,
    /// The time at which the timer rings, or one before that; zero if it is not known.
    due_ns: AtomicU64,
    /// The time of the last park that was counted.
    parked_ns: AtomicU64,
    /// The number of these that followed each other soon.
    parks: AtomicU32,
    /// The time of the last look.
    looked_ns: AtomicU64,
}

impl MonitorAlarm {
    const_fn! {
        /// The state of a runtime without running workers and with a timer that is not set.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self {
                awake: AtomicU32::new(0),
                due_ns: AtomicU64::new(0),
                parked_ns: AtomicU64::new(0),
                parks: AtomicU32::new(0),
                looked_ns: AtomicU64::new(0),
            }
        }
    }

    /// Counts in a worker that runs, again or for the first time.
    pub fn worker_runs(&self, timer: &impl Timer) {
        // Relaxed: ordered by the fence.
        if self.awake.fetch_add(1, Ordering::Relaxed) > 0 {
            // The worker that came first has set the timer.
            return;
        }
        if !cfg!(weaken = "monitor-runs") {
            // Pairs with the fences in `may_sleep` and `worker_parks`.
            fence_behind_rmw();
        }
        let now_ns = timer.now_ns();
        let left_ns = self.due_ns.load(Ordering::Relaxed).checked_sub(now_ns);
        if left_ns.is_none_or(|left_ns| left_ns > SOON_NS) {
            self.set(timer, now_ns + SOON_NS);
        }
    }

    /// Counts out a worker that will run no fiber until it is counted in again.
    pub fn worker_parks(&self, timer: &impl Timer) {
        // Release: pairs with the Acquire in `may_sleep`, so that a monitor thread which looks
        // while no worker runs sees all that the worker did before.
        if self.awake.fetch_sub(1, Ordering::Release) == 1 {
            self.postpone(timer);
        }
    }

    /// Lets the timer ring later, as no worker runs.
    fn postpone(&self, timer: &impl Timer) {
        let now_ns = timer.now_ns();
        // Relaxed: hints; a look that comes too soon does no harm.
        let later_ns = self.looked_ns.load(Ordering::Relaxed) + RARELY_NS;
        let since_ns = now_ns.saturating_sub(self.parked_ns.load(Ordering::Relaxed));
        if later_ns <= now_ns + SOON_NS || since_ns < POSTPONE_NS {
            return;
        }
        let parks = match since_ns < SOON_NS {
            true => self.parks.load(Ordering::Relaxed).saturating_add(1),
            false => 0,
        };
        self.parked_ns.store(now_ns, Ordering::Relaxed);
        self.parks.store(parks, Ordering::Relaxed);
        if parks >= MOST_PARKS {
            return;
        }
        self.set(timer, later_ns);
        if !cfg!(weaken = "monitor-parks") {
            // Pairs with the fence in `worker_runs`: either that worker sees the later time, or it
            // is seen here.
            fence(Ordering::SeqCst);
        }
        let runs = self.awake.load(Ordering::Relaxed) > 0;
        let changed = self.due_ns.load(Ordering::Relaxed) != later_ns;
        if !cfg!(weaken = "monitor-postpone") && (runs || changed) {
            timer.ring_at(now_ns + SOON_NS);
            // Not the time: no worker that runs vouches for this store, which may come late.
            self.due_ns.store(0, Ordering::Relaxed);
        }
    }

    fn set(&self, timer: &impl Timer, due_ns: u64) {
        timer.ring_at(due_ns);
        // Relaxed: ordered by the fences.
        self.due_ns.store(due_ns, Ordering::Relaxed);
    }

    /// Returns true if the monitor thread, which has looked at the time `now_ns`, may sleep until
    /// the timer rings: no worker runs. Only the monitor thread.
    #[must_use]
    pub fn may_sleep(&self, now_ns: u64) -> bool {
        // Relaxed: ordered by the fence, and a hint.
        self.due_ns.store(0, Ordering::Relaxed);
        self.looked_ns.store(now_ns, Ordering::Relaxed);
        if !cfg!(weaken = "monitor-sleep") {
            // Pairs with the fence in `worker_runs`: either the count is seen to be above 0 here,
            // or the zero is seen by the worker that runs, which then sets the timer.
            fence(Ordering::SeqCst);
        }
        // Acquire: pairs with the Release in `worker_parks`.
        self.awake.load(Ordering::Acquire) == 0
    }
}
