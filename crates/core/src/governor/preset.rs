//! The decisions of an agent that finds no work, as a function of numbers.

/// A trade between the latency of wakes and the CPU that polling takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Preset {
    /// Agents spin for ever.
    Latency = 0,
    /// Agents spin for 50 us after they last had work, then park; polled watches are looked at
    /// every 50 us.
    #[default]
    Balanced = 1,
    /// Agents park at once; polled watches are looked at every millisecond.
    Power = 2,
}

/// The next step of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Poll again.
    Spin,
    /// Park until unparked.
    Park,
    /// Park until unparked or for this many nanoseconds, then look at the polled watches.
    ParkFor(u64),
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

    /// Returns the time between two looks at a polled watch while no agent spins, in nanoseconds.
    pub const fn sample_ns(self) -> u64 {
        match self {
            Preset::Latency | Preset::Balanced => 50_000,
            Preset::Power => 1_000_000,
        }
    }

    /// Returns the next step of an agent that may spin, after `idle_ns` without work.
    pub fn decide(self, idle_ns: u64, silent_watches: bool) -> Decision {
        match self.spin_ns() {
            Some(budget) if idle_ns >= budget => self.rest(silent_watches),
            _ => Decision::Spin,
        }
    }

    /// Returns the next step of an agent that may not spin.
    pub const fn rest(self, silent_watches: bool) -> Decision {
        if silent_watches { Decision::ParkFor(self.sample_ns()) } else { Decision::Park }
    }
}
