//! What a simulation assumes of machine, network and load.

use daiko_core::place::BOUND;

use crate::kit::Failure;

/// All that a simulation depends on. Times are in nanoseconds.
///
/// # Examples
/// ```
/// use daiko_lab::experiments::follow_sim::{Model, simulate};
/// let model = Model { cpus: 4, flows: 100, ..Model::default() };
/// let once = simulate(&model, 10_000).unwrap();
/// assert_eq!(once, simulate(&model, 10_000).unwrap(), "the same seed, the same result");
/// assert!(simulate(&Model { cpus: 1, ..model }, 1).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// CPUs, all of one domain.
    pub cpus: u16,
    /// Flows, each with a task that reads it.
    pub flows: u32,
    /// Packets per second of each flow, on average.
    pub rate: u64,
    /// Packets of a burst, on average; the number is geometrically distributed. With 1 the packets of each flow are a Poisson process;
    /// otherwise its bursts are.
    pub burst: u32,
    /// From one packet of a burst to the next.
    pub gap_ns: u64,
    /// What the interrupt takes for each packet.
    pub interrupt_ns: u64,
    /// What a task takes for each packet, on average; exponentially distributed.
    pub service_ns: u64,
    /// What a task takes in addition when it first runs on another CPU than before.
    pub cold_ns: u64,
    /// How much of each CPU other tasks need, in per cent. They never move.
    pub load: u64,
    /// How long such a task runs, on average; exponentially distributed. They begin as a Poisson process.
    pub load_ns: u64,
    /// After so long a task goes behind others that wait for its CPU.
    pub slice_ns: u64,
    /// So often a waiting task is moved from the CPU where most wait to an idle one; 0 is never.
    pub balance_ns: u64,
    /// How the network chooses CPUs.
    pub steering: Steering,
    /// How wake-ups choose CPUs.
    pub policy: Policy,
    /// What all that is random begins with.
    pub seed: u64,
}

/// Which CPU processes the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// The one where the flow's task last asked for data, as the network card or the kernel knew it so long ago.
    Rfs {
        /// From when a task asks until packets may follow.
        lag_ns: u64,
    },
    /// Always the same.
    Hash,
}

/// Where a woken task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As kernels do: [`daiko_core::place::existing`].
    Existing,
    /// The same, and a task that has moved stays: [`daiko_core::place::Follow`].
    Follow {
        /// For at most so many wake-ups.
        bound: u8,
    },
}

impl Policy {
    /// P3's, as Daiko has it.
    pub const FOLLOW: Self = Self::Follow { bound: BOUND };
}

/// As P3 had, twelve CPUs and 512 flows that use a quarter of them. The rest is assumed: round numbers with which P3's
/// figures appear.
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
            policy: Policy::Existing,
            seed: 1,
        }
    }
}

/// As many as an idle mask has bits for.
pub const MOST_CPUS: u16 = 128;
/// As many as fit into a cache.
pub const MOST_FLOWS: u32 = 65_536;
const MOST_NS: u64 = 1_000_000_000;
/// Where more is asked of the CPUs, queues only grow.
const MOST_PERCENT: u64 = 95;

impl Model {
    /// Whether it can be simulated.
    ///
    /// # Errors
    /// What is out of range, and the range.
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

    /// What is asked of the CPUs, in per cent of all.
    fn demand_percent(&self) -> u64 {
        let packets = u128::from(self.flows) * u128::from(self.rate);
        let busy = packets * u128::from(self.interrupt_ns + self.service_ns);
        let percent = busy * 100 / (u128::from(self.cpus) * 1_000_000_000);
        percent as u64 + self.load
    }
}

impl Steering {
    /// How late packets follow, 0 where they never do.
    pub fn lag_ns(self) -> u64 {
        match self {
            Self::Rfs { lag_ns } => lag_ns,
            Self::Hash => 0,
        }
    }
}
