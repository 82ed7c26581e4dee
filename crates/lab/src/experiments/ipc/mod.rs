//! What it costs to ask another process.
//!
//! `clients` processes ask one server: each sends `bytes` bytes, waits for the answer, checks it and
//! asks again. With `placement=two-cpus` the server is on one CPU and all clients are on another; with
//! `one-cpu` all share one.
//!
//! | method | question and answer | who waits |
//! |---|---|---|
//! | `spin` | in a slot of shared memory for each client, which flag and message share | looks at its slot, the server at all slots |
//! | `spin-futex` | likewise | looks 300 times, then sleeps on a futex |
//! | `futex` | likewise | sleeps on a futex |
//! | `eventfd`, `semaphore` | likewise | sleeps on an event counter, a `sem_t`; the server has one for all clients |
//! | `pipe`, `unix-socket`, `tcp` | on a connection for each client | reads; a server of several clients waits by epoll |
//! | `mpi` | Open MPI between processes of one machine | receives; it yields the CPU where processes share one |
//! | `redis` | GET by a Unix socket | reads |
//!
//! 1. All clients call until they know how many calls of the quickest take 25 us: a batch.
//! 2. All begin together, and call for a fixed time, in batches with a clock between them. A point's
//!    median is that of the batches of all clients, so it has no clock in it; from the same calls
//!    come `throughput`, calls per second of all clients, and `share`, the calls of the slowest
//!    client relative to the mean of all.
//! 3. For the same time again each call is timed by itself: `p50`, `p99`, `p999`, `max`.
//!
//! The processes are forked by the process of the sample, are killed with it, and are pinned.

mod client;
mod daiko;
mod eventfd;
mod forked;
mod futex;
mod method;
mod mpi;
mod outcome;
mod pipe;
pub(crate) mod redis;
mod semaphore;
mod sleepers;
mod slot;
mod spin;
mod spin_futex;
mod streams;
mod tcp;
mod unix_socket;

use std::time::Duration;

use self::method::{METHODS, Method, Spec};
#[doc(hidden)]
pub use self::mpi::sample_of;
use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Rounds, Sample, Skip, host,
};

const SPIN: &str = "spin";

const BYTES: [usize; 2] = [8, 64];
const CLIENTS: [usize; 3] = [1, 4, 16];

/// Where the processes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    TwoCpus,
    OneCpu,
}

impl Placement {
    const ALL: [Self; 2] = [Self::TwoCpus, Self::OneCpu];

    fn name(self) -> &'static str {
        match self {
            Self::TwoCpus => "two-cpus",
            Self::OneCpu => "one-cpu",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.name() == name)
    }

    /// The server's CPU and that of the clients, if there are so many.
    fn cpus(self) -> Option<(usize, usize)> {
        let cpus = host::cpu_list();
        match self {
            Self::TwoCpus => Some((*cpus.first()?, *cpus.get(1)?)),
            Self::OneCpu => Some((*cpus.first()?, *cpus.first()?)),
        }
    }
}

/// Questions and answers between processes, by every mechanism.
pub struct Ipc;

impl Experiment for Ipc {
    fn name(&self) -> &'static str {
        "ipc"
    }

    fn about(&self) -> &'static str {
        "question and answer between processes, one to sixteen clients of one server"
    }

    fn methods(&self) -> Vec<&'static str> {
        METHODS.iter().map(|method| method.name()).collect()
    }

    fn takes(&self, _: List) -> bool {
        false
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let wanted: Vec<_> = METHODS
            .iter()
            .filter(|method| options.wants(method.name()))
            .map(|method| (*method, method.supports()))
            .collect();
        let mut plan = Vec::new();
        for point in points(options.quick) {
            plan.extend(wanted.iter().filter_map(|(method, supports)| {
                point.planned(*method, supports.clone(), options.quick)
            }));
        }
        plan
    }

    /// Of a fixed length. A round of `effort` is a millisecond.
    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let method = METHODS.iter().find(|method| method.name() == case.method);
        let (Some(method), Some(point)) = (method, Point::from_params(&case.params)) else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let window = Duration::from_millis(effort.rounds).min(effort.limit / 2);
        method.run(&point.spec(window)?)?.into_sample()
    }
}

/// All points of a method; a quick run leaves out the long messages and the few clients.
fn points(quick: bool) -> Vec<Point> {
    let mut points = Vec::new();
    for bytes in BYTES {
        for placement in Placement::ALL {
            points.extend(CLIENTS.map(|clients| Point { bytes, placement, clients }));
        }
    }
    points.retain(|point| !quick || point.bytes == 8 && point.clients != 4);
    points
}

/// What the parameters of a point say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    bytes: usize,
    placement: Placement,
    clients: usize,
}

impl Point {
    fn params(self) -> Params {
        Params::new()
            .with("bytes", self.bytes)
            .with("placement", self.placement.name())
            .with("clients", self.clients)
    }

    fn from_params(params: &Params) -> Option<Self> {
        let number = |key| params.number(key).map(|number| number as usize);
        Some(Self {
            bytes: number("bytes")?,
            placement: Placement::from_name(params.text("placement")?)?,
            clients: number("clients").filter(|clients| (1..=1000).contains(clients))?,
        })
    }

    /// The point of `method`; none where a quick run would not be quick.
    fn planned(
        self,
        method: &dyn Method,
        supports: Result<(), Skip>,
        quick: bool,
    ) -> Option<Planned> {
        let slices = method.name() == SPIN && self.placement == Placement::OneCpu;
        if quick && slices && self.clients > 1 {
            return None;
        }
        // Long enough for each of many clients to have its time slices, several times.
        let milliseconds = match (slices || self.clients > 1, quick) {
            (false, false) => 60,
            (false, true) => 20,
            (true, false) => 400,
            (true, true) => 120,
        };
        let two = self.placement.cpus().ok_or_else(|| Skip::new("two CPUs are needed: allow two"));
        let rounds = supports.and(two.map(|_| Rounds::Fixed(milliseconds)));
        let params = self.params();
        let case = Case { experiment: "ipc".into(), method: method.name().into(), params };
        Some(Planned { case, rounds })
    }

    fn spec(self, window: Duration) -> Result<Spec, Failure> {
        let cpus = self.placement.cpus();
        let (server_cpu, client_cpu) =
            cpus.ok_or_else(|| Failure::Unavailable("two CPUs are needed: allow two".into()))?;
        let Self { bytes, clients, .. } = self;
        Ok(Spec { clients, bytes, server_cpu, client_cpu, window })
    }
}

#[cfg(test)]
mod tests;
