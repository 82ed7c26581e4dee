//! The sleep of a monitor thread while no worker runs.
//!
//! README.md beside this file has the states, the steps and the proof. The sleep itself, a futex
//! wait for the word, is the caller's.

use crate::atomic::{AtomicU32, Ordering, const_fn, fence_behind_rmw};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The number of workers that run, and the word that the monitor thread sleeps on.
///
/// ```text
/// word: WATCHING -> ASLEEP    the monitor thread, if no worker runs
///       ASLEEP -> WATCHING    the first worker that runs again, or the monitor thread itself
///       any -> ENDING         the end of the runtime; final
/// ```
///
/// Budget: parking is one RMW. Waking is one RMW, and a load for the first worker that wakes.
#[derive(Debug)]
pub struct MonitorSleep {
    /// The number of workers with a running thread. Each worker counts itself in and out.
    awake: AtomicU32,
    word: AtomicU32,
}

/// The monitor thread as a worker found it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorWas {
    /// The monitor slept, or was about to. It is marked watching, and the caller owes it a futex
    /// wake.
    Asleep,
    /// The monitor watches, ends, or is woken by another worker.
    Awake,
}

impl MonitorSleep {
    /// Value of the word while the monitor thread looks now and then.
    pub const WATCHING: u32 = 0;
    /// Value of the word while the monitor thread sleeps until a worker runs.
    pub const ASLEEP: u32 = 1;
    const ENDING: u32 = 2;

    const_fn! {
        /// The state of a runtime without running workers and with a watching monitor thread.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            MonitorSleep { awake: AtomicU32::new(0), word: AtomicU32::new(Self::WATCHING) }
        }
    }

    /// Counts out a worker that is about to sleep until it is unparked.
    pub fn worker_parks(&self) {
        // Release: pairs with the Acquire in `stays_asleep`, so that a monitor thread which looks
        // while nothing runs sees all that the worker did before.
        self.awake.fetch_sub(1, Ordering::Release);
    }

    /// Counts in a worker that runs, again or for the first time.
    pub fn worker_runs(&self) -> MonitorWas {
        // Relaxed: ordered by the fence.
        if self.awake.fetch_add(1, Ordering::Relaxed) > 0 {
            // The worker that came first looks at the word.
            return MonitorWas::Awake;
        }
        if !cfg!(weaken = "monitor-runs") {
            // Pairs with the fence in `try_sleep`.
            fence_behind_rmw();
        }
        match self.word.load(Ordering::Relaxed) == Self::ASLEEP && self.wakes() {
            true => MonitorWas::Asleep,
            false => MonitorWas::Awake,
        }
    }

    /// Marks the monitor thread asleep, unless a worker runs or the runtime ends. The thread then
    /// sleeps for as long as it [stays asleep](Self::stays_asleep). Only the monitor thread.
    #[must_use]
    pub fn try_sleep(&self) -> bool {
        // Relaxed: a hint, which `stays_asleep` asks for again.
        let may =
            self.awake.load(Ordering::Relaxed) == 0 && self.change(Self::WATCHING, Self::ASLEEP);
        if !cfg!(weaken = "monitor-sleep") {
            // Pairs with the fence in `worker_runs`: either the count is seen to be above 0 by
            // `stays_asleep`, or the mark by the worker that runs.
            fence_behind_rmw();
        }
        may
    }

    /// Returns true if the monitor thread, which has marked itself asleep, may sleep on the word
    /// while it holds [`ASLEEP`](Self::ASLEEP). Takes the mark back if a worker runs. Only the
    /// monitor thread.
    #[must_use]
    pub fn stays_asleep(&self) -> bool {
        // Acquire: pairs with the Release in `worker_parks`.
        if self.awake.load(Ordering::Acquire) > 0 {
            self.wakes();
            return false;
        }
        self.word.load(Ordering::Relaxed) == Self::ASLEEP
    }

    /// Has the monitor thread end. The caller owes it a futex wake.
    pub fn end(&self) {
        // Relaxed: the thread is joined, and nothing is handed over by the word.
        self.word.swap(Self::ENDING, Ordering::Relaxed);
    }

    /// Returns true if the monitor thread has to end.
    pub fn is_ending(&self) -> bool {
        self.word.load(Ordering::Relaxed) == Self::ENDING
    }

    /// The word to sleep on, and to wake.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Takes the mark of the sleeper back; true if the mark was still there.
    fn wakes(&self) -> bool {
        self.change(Self::ASLEEP, Self::WATCHING)
    }

    /// Never leaves ENDING: a compare-exchange from another state fails there.
    fn change(&self, from: u32, to: u32) -> bool {
        if cfg!(weaken = "monitor-ending") {
            return self.word.swap(to, Ordering::Relaxed) == from;
        }
        // Relaxed: the count and the word are ordered by the fences.
        self.word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
