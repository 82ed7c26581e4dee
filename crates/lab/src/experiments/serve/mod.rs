//! What serving many connections costs: a key-value store and an echo.
//!
//! A server, a process of its own, is on one CPU; one thread that asks by `connections` connections over
//! the loopback is on another. What it sends is prepared beforehand, every byte of the replies is
//! compared, and it never sleeps, whatever the server.
//!
//! | method | server | asked |
//! |---|---|---|
//! | `kv` | the example of Daiko, on one worker | nine GET for each SET, of 1024 keys with values of 64 bytes |
//! | `redis` | `redis-server`, nothing written to disk | likewise |
//! | `echo-daiko` | a fiber for each connection, on one worker | messages of 64 bytes |
//! | `echo-daiko-epoll`, `-uring` | the same, told how to ask the kernel | likewise |
//! | `echo-daiko-uring-irq` | the same by io_uring that interrupts the worker for each change | likewise |
//! | `echo-tokio` | a task of tokio for each connection, in its runtime of several threads, with one worker | likewise |
//! | `echo-tokio-single` | the same in its runtime of a single thread | likewise |
//! | `echo-threads` | a kernel thread for each connection | likewise |
//!
//! `pipeline` requests are sent together, and the next ones when all of them are answered.
//!
//! 1. All connections are made and served once. Then all ask as fast as they are answered, for a quarter
//!    of the time, which does not count.
//! 2. The same for the whole time: `throughput`, requests answered per second; `cpu-throughput`, those
//!    per second of the server's CPU time, in user space and in the kernel; `server-cpu`, how much of its
//!    CPU it used; and `client-cpu`, how much of the time who asks had something to do. Where
//!    that is near 100 and `server-cpu` is not, the throughput is the client's. `share` is what the connection got
//!    that was answered least, as a part of the mean: a server that leaves many waiting works in a smaller memory.
//! 3. Requests are due at times drawn beforehand, those of a Poisson process with half of that throughput,
//!    by any of the connections, whether earlier ones are answered or not: `p50`, `p99`, `p999`
//!    of the time from when a request was *due* until it was answered. With `pipeline` 16, sixteen are
//!    due together, and answered with the last of them. `client-stall` is how much of that time who asks
//!    stood still, for more than 1 ms at a time: where it is near 1 or more, p99 is the machine's and not
//!    the server's.
//!
//! Points without `pipeline` are of connections that were served once and now say nothing: `idle-memory`,
//! bytes for each by which the server's `VmRSS + VmPTE` has grown; and `idle-cpu`. What the kernel has
//! for a socket is not in it. 100,000 connections are made by a Unix socket: there are not so many ports.

mod address;
mod echo;
mod echo_daiko;
mod echo_threads;
mod echo_tokio;
mod fibers;
mod figures;
mod generator;
mod kv;
mod measure;
mod method;
mod redis;
mod script;
mod server;

use std::time::Duration;

use self::address::Socket;
use self::measure::Spec;
use self::method::ServerMethod;
use crate::kit::{Experiment, Failure, Measure, Params, Plan, Rounds, Sample, host};

/// The methods, in the order of tables. Another one is added here.
const METHODS: [&[ServerMethod]; 4] = [
    &[kv::METHOD, redis::METHOD],
    &echo_daiko::METHODS,
    &echo_tokio::METHODS,
    &[echo_threads::METHOD],
];

fn methods() -> impl Iterator<Item = ServerMethod> {
    METHODS.into_iter().flatten().copied()
}

const CONNECTIONS: [usize; 4] = [1, 50, 1000, 10_000];
const PIPELINES: [usize; 2] = [1, 16];
const IDLE: [(usize, Socket); 3] =
    [(1000, Socket::Tcp), (10_000, Socket::Tcp), (100_000, Socket::Unix)];
const MOST_QUICK: usize = 1000;

/// Requests of many connections to one server.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "servers of one to ten thousand connections: requests, their price in CPU time and their latency",
    sizes: &["connections"],
    lists: &[],
    methods: || methods().map(|method| method.name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

/// A quick run leaves out the many connections.
fn cases(plan: &mut Plan<'_>) {
    let quick = plan.options.quick;
    for point in points().filter(|point| !quick || point.connections <= MOST_QUICK) {
        for method in methods() {
            let supports = (method.supports)(point.connections).and(host::two_cpus());
            let rounds = supports.map(|_| Rounds::Fixed(point.milliseconds(quick)));
            plan.add(method.name, point.params(), rounds);
        }
    }
}

/// Of a fixed length.
fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = methods().find(|known| known.name == method)?;
    let point = Point::from_params(params)?;
    Some(Box::new(move |effort| point.sample(method, effort.window())))
}

/// All points of a method.
fn points() -> impl Iterator<Item = Point> {
    let load = CONNECTIONS.into_iter().flat_map(|connections| {
        PIPELINES.map(|pipeline| Point { connections, kind: Kind::Load { pipeline } })
    });
    load.chain(IDLE.map(|(connections, socket)| Point { connections, kind: Kind::Idle { socket } }))
}

/// What the parameters of a point say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    connections: usize,
    kind: Kind,
}

/// What the connections do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Load { pipeline: usize },
    Idle { socket: Socket },
}

impl Point {
    fn params(self) -> Params {
        let params = Params::new().with("connections", self.connections);
        match self.kind {
            Kind::Load { pipeline } => params.with("pipeline", pipeline),
            Kind::Idle { socket } => params.with("socket", socket),
        }
    }

    fn from_params(params: &Params) -> Option<Self> {
        let number = |key, most| params.size(key).filter(|number| (1..=most).contains(number));
        let kind = match params.get("socket") {
            Some(_) => Kind::Idle { socket: params.choice("socket")? },
            None => Kind::Load { pipeline: number("pipeline", 1000)? },
        };
        Some(Self { connections: number("connections", 1_000_000)?, kind })
    }

    /// Several requests of each connection; of idle ones, enough to see a thousandth of a CPU.
    fn milliseconds(self, quick: bool) -> u64 {
        match (self.kind, quick) {
            (Kind::Load { .. }, false) if self.connections >= 10_000 => 1000,
            (Kind::Load { .. }, false) => 500,
            (Kind::Load { .. }, true) => 150,
            (Kind::Idle { .. }, false) => 1000,
            (Kind::Idle { .. }, true) => 400,
        }
    }

    fn sample(self, method: ServerMethod, window: Duration) -> Result<Sample, Failure> {
        let (server_cpu, client_cpu) = host::two_cpus()?;
        let spec = Spec { method, connections: self.connections, server_cpu, client_cpu, window };
        match self.kind {
            Kind::Load { pipeline } => spec.load(pipeline),
            Kind::Idle { socket } => spec.idle(socket),
        }
    }
}

#[cfg(test)]
mod tests;
