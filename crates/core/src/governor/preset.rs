//! The user's choice between latency and CPU time.

/// Maximum time between two looks at a polled source, in nanoseconds.
pub const LONGEST_SAMPLE_NS: u64 = 10_000_000;

/// A trade between the latency of wakes and the CPU that polling takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Preset {
    /// Agents spin for ever. Under a real-time policy (`SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`)
    /// they spin for 50 us, then park: otherwise they would keep their CPUs from all threads of
    /// lower priority for good.
    Latency = 0,
    /// Agents spin for 50 us after they last had work, then park; polled sources are due every 50
    /// us at first, and more rarely while nothing changes.
    #[default]
    Balanced = 1,
    /// Agents park at once; polled sources are due every millisecond at first, and more rarely
    /// while nothing changes.
    Power = 2,
}

impl Preset {
    /// Returns the time that an agent without work spins, in nanoseconds; `None` is without limit.
    pub const fn spin_ns(self) -> Option<u64> {
        match self {
            Preset::Latency => None,
            Preset::Balanced => Some(50_000),
            Preset::Power => Some(0),
        }
    }

    /// Returns the time until the next look at a polled source by an agent that does not spin and
    /// has had no work for `idle_ns`, in nanoseconds.
    ///
    /// A sixteenth of that time: so a change is seen late by at most 6% of the time for which
    /// nothing had changed. But at least 50 us, as a look costs some microseconds of CPU time; at
    /// most 875 us in the first second; and never more than [`LONGEST_SAMPLE_NS`].
    pub fn sample_ns(self, idle_ns: u64) -> u64 {
        let (least, soon) = match self {
            Preset::Latency | Preset::Balanced => (50_000, 875_000),
            Preset::Power => (1_000_000, 1_000_000),
        };
        (idle_ns / 16).min(soon).max(idle_ns / 1000).clamp(least, LONGEST_SAMPLE_NS)
    }
}
