//! What an agent does when its rounds find nothing, as a function of numbers.

/// A trade between the latency of wakes and the CPU that polling takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Preset {
    /// Agents spin for ever.
    Latency = 0,
    /// Agents spin for 50 us after they last had work, then park; silent watches are sampled every 50 us.
    #[default]
    Balanced = 1,
    /// Agents park at once; silent watches are sampled every millisecond.
    Power = 2,
}

/// What an agent does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Poll again.
    Spin,
    /// Park until unparked.
    Park,
    /// Park until unparked or for this many nanoseconds, then sample the silent watches.
    ParkFor(u64),
}

impl Preset {
    /// How long an agent without work spins, in nanoseconds; `None` is without limit.
    pub const fn spin_ns(self) -> Option<u64> {
        match self {
            Preset::Latency => None,
            Preset::Balanced => Some(50_000),
            Preset::Power => Some(0),
        }
    }

    /// How long a silent watch stays unlooked at while no agent spins, in nanoseconds.
    pub const fn sample_ns(self) -> u64 {
        match self {
            Preset::Latency | Preset::Balanced => 50_000,
            Preset::Power => 1_000_000,
        }
    }

    /// What an agent that may spin does after `idle_ns` without work.
    pub fn decide(self, idle_ns: u64, silent_watches: bool) -> Decision {
        match self.spin_ns() {
            Some(budget) if idle_ns >= budget => self.rest(silent_watches),
            _ => Decision::Spin,
        }
    }

    /// What an agent does that may not spin.
    pub const fn rest(self, silent_watches: bool) -> Decision {
        if silent_watches { Decision::ParkFor(self.sample_ns()) } else { Decision::Park }
    }
}
