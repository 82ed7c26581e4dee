//! The bound on a spin under a real-time policy.
//!
//! An agent that spins under `SCHED_FIFO` or `SCHED_RR` keeps its CPU from every thread of lower
//! priority, and under `SCHED_FIFO` from those of its own priority as well: as many spinning agents
//! as CPUs would starve the rest of the system, and the thread that builds the runtime. So a spin
//! without end is one of [`LONGEST_NS`] there, and then the worker sleeps.

/// Longest spin under a real-time policy: that of `Preset::Balanced`. The policy is asked for after
/// that time, so shorter spins pay nothing.
const LONGEST_NS: u64 = 50_000;
/// Time after which the policy is asked for again, as another thread may change it meanwhile. The
/// system call takes a ten-thousandth of it.
const AGAIN_NS: u64 = 1_000_000;

/// The policy of a worker's thread, as known during one idle time.
pub(super) struct SpinPolicy {
    /// The idle time at which it is asked for again.
    due_ns: u64,
    is_real_time: bool,
}

impl SpinPolicy {
    /// Creates the knowledge of an agent that has just become idle: none.
    pub(super) fn new() -> Self {
        SpinPolicy { due_ns: LONGEST_NS, is_real_time: false }
    }

    /// Returns true if an agent without work for `idle_ns` has to sleep in place of a spin.
    /// `is_real_time` asks the kernel.
    pub(super) fn ends_spin(&mut self, idle_ns: u64, is_real_time: impl FnOnce() -> bool) -> bool {
        if idle_ns >= self.due_ns {
            self.due_ns = idle_ns + AGAIN_NS;
            self.is_real_time = is_real_time();
        }
        self.is_real_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_spin_does_not_ask() {
        let mut policy = SpinPolicy::new();
        assert!(!policy.ends_spin(LONGEST_NS - 1, || unreachable!("a system call")));
    }

    #[test]
    fn a_long_spin_asks_now_and_then_and_obeys_the_last_answer() {
        let mut policy = SpinPolicy::new();
        for (idle_ns, answer) in [(LONGEST_NS, false), (2 * AGAIN_NS, true), (4 * AGAIN_NS, false)]
        {
            assert_eq!(policy.ends_spin(idle_ns, || answer), answer);
            assert_eq!(policy.ends_spin(idle_ns + 1, || unreachable!("too soon")), answer);
        }
    }
}
