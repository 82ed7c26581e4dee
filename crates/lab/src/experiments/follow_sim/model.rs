//! Assumptions of a simulation about machine, network and load.

use daiko_core::place::BOUND;

use crate::kit::Failure;

/// All parameters of a simulation. Times are in nanoseconds.
///
/// # Examples
///
/// ```
/// use daiko_lab::experiments::follow_sim::{Model, simulate};
///
/// let model = Model { cpus: 4, flows: 100, ..Model::default() };
/// let once = simulate(&model, 10_000).unwrap();
/// assert_eq!(once, simulate(&model, 10_000).unwrap(), "the same seed, the same result");
/// assert!(simulate(&Model { cpus: 1, ..model }, 1).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Number of CPUs, all of one domain.
    pub cpus: u16,
    /// Number of flows, each with a task that reads it.
    pub flows: u32,
    /// Packets per second of each flow, on average.
    pub rate: u64,
    /// Packets of a burst, on average; the number is geometrically distributed. With 1, the packets
    /// of each flow are a Poisson process, otherwise its bursts are.
    pub burst: u32,
    /// Time from one packet of a burst to the next.
    pub gap_ns: u64,
    /// Time of the interrupt for each packet.
    pub interrupt_ns: u64,
    /// Service time of a task for each packet, on average; exponentially distributed.
    pub service_ns: u64,
    /// Additional time of a task when it first runs on another CPU than before.
    pub cold_ns: u64,
    /// Part of each CPU's time that other load needs, in per cent. Other load never moves.
    pub load: u64,
    /// Length of a piece of other load, on average; exponentially distributed. Its starts are a
    /// Poisson process.
    pub load_ns: u64,
    /// Time slice, after which a task goes behind the tasks that wait for its CPU.
    pub slice_ns: u64,
    /// Interval at which a waiting task is moved from the CPU with the longest queue to an idle
    /// one; 0 means never.
    pub balance_ns: u64,
    /// The way in which the network chooses CPUs.
    pub steering: Steering,
    /// The way in which wake-ups choose CPUs.
    pub policy: WakePolicy,
    /// Seed of all random choices.
    pub seed: u64,
}

/// The choice of the CPU that processes a flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// The CPU where the flow's task last asked for data, as far as the network card or the kernel
    /// knew it `lag_ns` ago.
    Rfs {
        /// Time from a task's request until packets may follow.
        lag_ns: u64,
    },
    /// A fixed CPU.
    Hash,
}

/// The choice of the CPU where a woken task continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakePolicy {
    /// The policy of kernels: [`daiko_core::place::existing`].
    Existing,
    /// The same, except that a task that has moved stays: [`daiko_core::place::Follow`].
    Follow {
        /// Largest number of wake-ups for which a task stays.
        bound: u8,
    },
}

impl WakePolicy {
    /// P3's policy with Daiko's bound.
    pub const FOLLOW: Self = Self::Follow { bound: BOUND };
}

/// P3's machine: twelve CPUs, and 512 flows that use a quarter of them. The other values are
/// assumed: round numbers with which P3's figures appear.
impl Default for Model {
    fn default() -> Self {
        Self {
            cpus: 12,
            flows: 512,
            rate: 100,
            burst: 20,
            gap_ns: 30_000,
            interrupt_ns: 9_000,
            service_ns: 50_000,
            cold_ns: 2_000,
            load: 50,
            load_ns: 25_000,
            slice_ns: 3_000_000,
            balance_ns: 4_000_000,
            steering: Steering::Rfs { lag_ns: 20_000 },
            policy: WakePolicy::Existing,
            seed: 1,
        }
    }
}

/// Largest number of CPUs: the bits of an idle mask.
pub const MOST_CPUS: u16 = 128;
/// Largest number of flows, so that their state fits into a cache.
pub const MOST_FLOWS: u32 = 65_536;
const MOST_NS: u64 = 1_000_000_000;
/// Largest demand on the CPUs in per cent. Above it, queues only grow.
const MOST_PERCENT: u64 = 95;

impl Model {
    /// Checks that the model can be simulated.
    ///
    /// # Errors
    /// Returns the parameter that is out of range, and the range.
    pub fn check(&self) -> Result<(), Failure> {
        let ranges = [
            ("cpus", self.cpus.into(), 2, MOST_CPUS.into()),
            ("flows", self.flows.into(), 1, MOST_FLOWS.into()),
            ("rate", self.rate, 1, 10_000_000),
            ("burst", self.burst.into(), 1, 1000),
            ("gap_ns", self.gap_ns, 0, MOST_NS),
            ("interrupt_ns", self.interrupt_ns, 1, MOST_NS),
            ("service_ns", self.service_ns, 1, MOST_NS),
            ("cold_ns", self.cold_ns, 0, MOST_NS),
            ("load", self.load, 0, 90),
            ("load_ns", self.load_ns, 1, MOST_NS),
            ("slice_ns", self.slice_ns, 1, MOST_NS),
            ("balance_ns", self.balance_ns, 0, MOST_NS),
            ("lag_ns", self.steering.lag_ns(), 0, MOST_NS),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(Failure::Broken(format!(
                    "{name}={value} is not within {least} to {most}"
                )));
            }
        }
        match self.demand_percent() {
            0..=MOST_PERCENT => Ok(()),
            percent => Err(Failure::Broken(format!(
                "flows and other load ask for {percent}% of the CPUs: lower rate, flows or load"
            ))),
        }
    }

    /// Demand of packets and other load, in per cent of all CPUs.
    fn demand_percent(&self) -> u64 {
        let packets = u128::from(self.flows) * u128::from(self.rate);
        let busy = packets * u128::from(self.interrupt_ns + self.service_ns);
        let percent = busy * 100 / (u128::from(self.cpus) * 1_000_000_000);
        percent as u64 + self.load
    }
}

impl Steering {
    /// Delay with which packets follow, or 0 if they never do.
    pub fn lag_ns(self) -> u64 {
        match self {
            Self::Rfs { lag_ns } => lag_ns,
            Self::Hash => 0,
        }
    }
}
