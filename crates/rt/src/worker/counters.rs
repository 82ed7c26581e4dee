//! What a worker counts: plain loads and stores on lines that it owns anyway.

use std::sync::atomic::{AtomicU64, Ordering};

/// One count, written by one thread and read by anyone.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only that one thread: not an atomic read-modify-write.
    #[inline]
    pub fn add(&self, n: u64) {
        // Release: pairs with the Acquire in `get`, so that who sees an end counted sees the
        // starts before it.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Release);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Acquire: pairs with the Release in `add`.
        self.0.load(Ordering::Acquire)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of one worker.
        #[derive(Default)]
        pub struct Counters {
            $(pub $name: Count,)*
        }

        /// What one worker has done since it started; read it while it runs.
        ///
        /// The counts are read one after the other, so that they may differ by what happens
        /// in between.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> WorkerCounters {
                WorkerCounters { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Switches to a fiber, from another fiber or the agent.
    switches,
    /// Fibers started.
    starts,
    /// Fibers that ended here.
    ends,
    /// Fibers of this worker made runnable by a fiber of this worker.
    wakes_local,
    /// Wakes sent to other workers' inboxes.
    mails_sent,
    /// Fibers found in this worker's inbox.
    mails_received,
    /// Fibers resumed because a watched word changed.
    watch_hits,
    /// Rounds that the agent polled all its sources.
    polls,
    /// Times the worker's kernel thread went to sleep.
    parks,
    /// Parked workers, this one included, that this worker woke through the kernel.
    unparks,
    /// Fibers taken from other workers.
    steals,
    /// Fibers that ran before older ones of their queue, as they go well with what a sibling runs.
    overtakes,
    /// Fibers that this worker passed on at their start because it had too many.
    imbalance,
    /// Times the monitor, which alone writes this one, found the worker stuck in one fiber.
    stuck,
    /// Fibers unwound by the shutdown of the runtime.
    unwound,
}
