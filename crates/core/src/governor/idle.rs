//! The decision of an agent that finds no work, as one function of numbers.

use super::{Goals, Preset, Spin};

/// Time that an agent spins on behalf of other processes if some of them need its CPU: some round
/// trips, in nanoseconds.
pub(super) const SHARED_SPIN_NS: u64 = 4_000;

/// The next step of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Poll again.
    Spin,
    /// Park until unparked.
    Park,
    /// Park until unparked or for this many nanoseconds, then look at the polled sources.
    ParkFor(u64),
}

/// The peer processes that are awake, and may end a wait of this worker's fibers. A party that has
/// a CPU of its own, by the word of its waiter, is one that runs elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Company {
    /// A peer runs on another CPU than the caller's, or on any.
    pub elsewhere: bool,
    /// A peer runs on the caller's CPU.
    pub here: bool,
}

impl Company {
    /// Returns the peers of both.
    #[must_use]
    pub fn and(self, other: Company) -> Company {
        Company { elsewhere: self.elsewhere || other.elsewhere, here: self.here || other.here }
    }

    /// Returns true if no peer is awake.
    pub fn is_none(self) -> bool {
        self == Company::default()
    }
}

/// The state of an agent that has found no work.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Time since the agent last had work, in nanoseconds.
    pub idle_ns: u64,
    /// True if there is a polled source, which this agent has to look at: its writer announces
    /// nothing.
    pub polled: bool,
    /// The peers that fibers of this worker wait for: processes, as the agent saw them when it
    /// became idle, and parties elsewhere that waiters have now.
    pub company: Company,
    /// True if no other process has begun to spin on this CPU. Only asked if peer processes are
    /// awake.
    pub has_seat: bool,
    /// True if a sibling on this core needs the units that a spinning agent would use, the worker
    /// that is to answer this one needs the CPU, or the agent has spun for long under a real-time
    /// policy.
    pub gives_way: bool,
}

impl Idle {
    /// Creates the state of an agent of a process without peers, on an unshared core.
    pub fn alone(idle_ns: u64, polled: bool) -> Self {
        Idle { idle_ns, polled, company: Company::default(), has_seat: true, gives_way: false }
    }
}

/// The times by which an agent decides.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'g> {
    /// The preset, for the times that no goal replaces.
    pub preset: Preset,
    /// Time that an agent without work spins.
    pub spin: Spin,
    /// The user's goals.
    pub goals: &'g Goals,
}

impl Plan<'_> {
    /// Returns the plan of a preset, without goals.
    pub const fn of(preset: Preset) -> Self {
        Plan { preset, spin: Spin::of(preset), goals: &Goals::NONE }
    }

    /// Returns the time that an agent spins on behalf of `company`, in nanoseconds (`u64::MAX` is
    /// without limit), in place of the time for a process without peers; `None` if there is no
    /// company.
    ///
    /// A process may spin for its peers on its only CPU, as they run on other CPUs.
    const fn spin_for(self, company: Company) -> Option<u64> {
        match (company.elsewhere, company.here, self.preset) {
            (false, false, _) => None,
            (false, true, _) | (true, true, Preset::Power) => Some(0),
            (true, true, _) => Some(SHARED_SPIN_NS),
            (true, false, _) => Some(self.spin.ns),
        }
    }

    /// Returns true if an agent may begin to spin, as one of `allowed` agents: not if a peer that
    /// is awake needs its CPU. If no peer is awake, it needs a permit and a time to spin.
    pub const fn may_spin_for(self, company: Company, allowed: u32) -> bool {
        match self.spin_for(company) {
            Some(spin_ns) => spin_ns > 0,
            None => self.spin.ns > 0 && allowed > 0,
        }
    }

    /// Decides on the next step of an agent; `permitted` if it may be one of those that spin.
    ///
    /// README has a row for each case.
    pub fn decide(self, idle: &Idle, permitted: bool) -> Decision {
        let sample_ns = || self.goals.sample_ns(self.preset.sample_ns(idle.idle_ns));
        let parks = if idle.polled { Decision::ParkFor(sample_ns()) } else { Decision::Park };
        let within = |spin_ns| spin_ns == u64::MAX || idle.idle_ns < spin_ns;
        let spins = match self.spin_for(idle.company) {
            None => permitted && within(self.spin.ns),
            Some(spin_ns) => within(spin_ns) && idle.has_seat,
        };
        if spins && !idle.gives_way { Decision::Spin } else { parks }
    }
}
