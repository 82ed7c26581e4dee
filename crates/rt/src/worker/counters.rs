//! Counts of a worker's events: plain loads and stores on lines that it owns anyway.

use crate::atomic::{AtomicU64, Ordering};

/// A count that one thread writes and any thread reads.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only for the writing thread: it is no atomic read-modify-write.
    #[inline]
    pub fn add(&self, n: u64) {
        // Release: pairs with the Acquire in `get`: a reader that sees an end counted sees the
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
        /// The names of the counts, in their order.
        pub(super) const NAMES: &str = {
            let names = concat!($(stringify!($name), " "),*);
            // Without the last space.
            names.split_at(names.len() - 1).0
        };

        /// The counts of one worker.
        #[derive(Default)]
        #[repr(C)]
        pub struct Counters {
            $(pub $name: Count,)*
        }

        /// The counts of one worker since it started. It can be read while the worker runs.
        ///
        /// The counts are read one after the other, so they may differ by the events in between.
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
    /// Wakes by which a fiber of this worker made another fiber of this worker runnable.
    wakes_local,
    /// Messages sent to the inboxes of other workers.
    mails_sent,
    /// Fibers found in this worker's inbox.
    mails_received,
    /// Fibers resumed because a watched word changed.
    watch_hits,
    /// Rounds in which the agent polled all its sources.
    polls,
    /// Times the worker's kernel thread went to sleep.
    parks,
    /// Parked workers, this one included, that this worker woke through the kernel.
    unparks,
    /// Fibers taken from other workers.
    steals,
    /// Fibers that ran before older fibers of their queue, because they go well with the fiber on a
    /// sibling.
    overtakes,
    /// Fibers that this worker passed on at their start because it had too many.
    imbalance,
    /// Times the monitor found the worker stuck in one fiber. Only the monitor writes this count.
    stuck,
    /// Fibers unwound by the shutdown of the runtime.
    unwound,
    /// Calls of `blocking` that blocked this worker, because no thread could be started for them.
    blocking_in_place,
}
