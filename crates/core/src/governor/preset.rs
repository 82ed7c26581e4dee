//! The user's choice between latency and CPU time.

/// A trade between the latency of wakes and the CPU that polling takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Preset {
    /// Agents spin for ever.
    Latency = 0,
    /// Agents spin for 50 us after they last had work, then park; polled sources are due every 50
    /// us.
    #[default]
    Balanced = 1,
    /// Agents park at once; polled sources are due every millisecond.
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

    /// Returns the time between two looks at a polled source while no agent spins, in nanoseconds.
    pub const fn sample_ns(self) -> u64 {
        match self {
            Preset::Latency | Preset::Balanced => 50_000,
            Preset::Power => 1_000_000,
        }
    }
}
