//! The interface of a method of the ring.

use std::time::Duration;

pub use crate::kit::RingOutcome;
use crate::kit::{Choice, Failure, Order, Params, Skip, ThreadRegister};

/// Parameters of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSpec {
    /// Threads or fibers in the ring, at least 2.
    pub threads: usize,
    /// The order of the threads in the ring.
    pub order: Order,
    /// Number of laps.
    pub laps: u64,
    /// CPUs on which kernel threads may run.
    pub cpus: Cpus,
    /// Workers of a library, including Daiko's; at least 1.
    pub workers: usize,
    /// Distribution of fibers over the workers; `None` with one worker, and for peers.
    pub layout: Option<Layout>,
    /// Number of distinct functions that call the suspend, 1 or 16: fiber `i` uses function `i %
    /// sites`.
    pub sites: usize,
    /// How a worker changes the thread pointer; `None` for the usual way.
    pub register: Option<ThreadRegister>,
    /// Size of a fiber's stack in KiB; `None` for the usual size.
    pub stack_kib: Option<usize>,
    /// Time after which the run ends and reports the laps done.
    pub limit: Duration,
}

impl RingSpec {
    /// A ring of `threads` threads with default parameters, without laps and without a limit.
    pub fn of_threads(threads: usize) -> Self {
        Self {
            threads,
            order: Order::Shuffled,
            laps: 0,
            cpus: Cpus::All,
            workers: 1,
            layout: None,
            sites: 1,
            register: None,
            stack_kib: None,
            limit: Duration::ZERO,
        }
    }

    /// The parameters of this point of a method of `kind`.
    pub fn params(&self, kind: VariedParameters) -> Params {
        let params = Params::new().with("threads", self.threads);
        let params = match kind {
            VariedParameters::Kernel => params.with("cpus", self.cpus),
            _ => params.with("workers", self.workers).with_some("layout", self.layout),
        };
        let sites = kind.is_daiko().then_some(self.sites);
        let params = params.with_some("sites", sites).with("order", self.order);
        params.with_some("thread-register", self.register).with_some("stack-kib", self.stack_kib)
    }

    /// The ring that `params` describe.
    pub fn from_params(params: &Params) -> Option<Self> {
        let mut spec = Self::of_threads(params.size("threads")?);
        spec.order = params.choice("order")?;
        spec.workers = params.size("workers").unwrap_or(1);
        spec.sites = params.size("sites").unwrap_or(1);
        spec.stack_kib = params.size("stack-kib");
        if params.get("cpus").is_some() {
            spec.cpus = params.choice("cpus")?;
        }
        if params.get("layout").is_some() {
            spec.layout = Some(params.choice("layout")?);
        }
        if params.get("thread-register").is_some() {
            spec.register = Some(params.choice("thread-register")?);
        }
        Some(spec)
    }

    /// The usual laps of the first, calibrating run.
    pub fn usual_laps(&self) -> u64 {
        (2000 / self.threads as u64).max(2)
    }

    /// Builds the table in which `successors()[i]` gets the datum from thread `i`: one cycle over
    /// all threads.
    pub fn successors(&self) -> Vec<u32> {
        self.order.successors(self.threads)
    }

    /// Builds the table in which `positions()[i]` is the number of hops from thread 0 to thread
    /// `i`.
    pub fn positions(&self) -> Vec<u32> {
        let successors = self.successors();
        let mut positions = vec![0; self.threads];
        let mut thread = 0;
        for position in 0..self.threads {
            positions[thread] = position as u32;
            thread = successors[thread] as usize;
        }
        positions
    }
}

/// CPUs on which kernel threads may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cpus {
    /// Any allowed CPU: the system places the threads.
    All,
    /// One CPU for all threads.
    One,
}

impl Choice for Cpus {
    const NAMES: &'static [(Self, &'static str)] = &[(Self::All, "all"), (Self::One, "one")];
}

/// The distribution of fibers over several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Each worker has a contiguous part of the cycle.
    Half,
    /// Every hop crosses workers: the fiber `i` hops after thread 0 is on worker `i % workers`.
    Cross,
    /// The runtime places the fibers.
    Free,
}

impl Choice for Layout {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Half, "half"), (Self::Cross, "cross"), (Self::Free, "free")];
}

/// The parameters that a method varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariedParameters {
    /// Kernel threads: `cpus`.
    Kernel,
    /// A library with workers of its own: `workers`.
    Library,
    /// Daiko: `workers`, `layout`, `sites`.
    Daiko,
    /// Daiko's fibers with thread-locals of their own: also `thread-register`.
    DaikoOwn,
}

impl VariedParameters {
    /// Whether the method is one of Daiko's.
    pub fn is_daiko(self) -> bool {
        matches!(self, Self::Daiko | Self::DaikoOwn)
    }
}

/// Tests whether a ring can be run here.
pub type Supports = Box<dyn Fn(&RingSpec) -> Result<(), Skip>>;

/// Runs a ring.
pub type Run = Box<dyn Fn(&RingSpec) -> Result<RingOutcome, Failure>>;

/// A mechanism by which the ring's threads wait for each other.
pub struct Method {
    /// Name in the command line and in results.
    pub name: &'static str,
    /// The parameters that it varies.
    pub kind: VariedParameters,
    /// Checks that `spec` can be run here; the error is one line with the remedy. Must be quick (it
    /// may look for an installed library, not compile one). `spec.laps` is not filled in yet.
    pub supports: Supports,
    /// Laps of the first, calibrating run: few where a hop is slow.
    pub first_laps: fn(&RingSpec) -> u64,
    /// Runs the ring once, in a process of its own. An error is one line for the user.
    pub run: Run,
}

impl Method {
    /// A method that is supported everywhere.
    pub fn new(
        name: &'static str,
        kind: VariedParameters,
        run: impl Fn(&RingSpec) -> Result<RingOutcome, Failure> + 'static,
    ) -> Self {
        let supports = Box::new(|_: &RingSpec| Ok(()));
        Self { name, kind, supports, first_laps: RingSpec::usual_laps, run: Box::new(run) }
    }
}
