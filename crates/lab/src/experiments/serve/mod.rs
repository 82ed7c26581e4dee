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
mod generator;
mod kv;
mod measure;
mod method;
mod redis;
mod script;
mod server;

use std::time::Duration;

use self::{
    address::Socket,
    measure::Spec,
    method::{METHODS, Method},
};
use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Rounds, Sample, Skip, host,
};

const CONNECTIONS: [usize; 4] = [1, 50, 1000, 10_000];
const PIPELINES: [usize; 2] = [1, 16];
const IDLE: [(usize, Socket); 3] =
    [(1000, Socket::Tcp), (10_000, Socket::Tcp), (100_000, Socket::Unix)];
const MOST_QUICK: usize = 1000;

/// Requests of many connections to one server.
pub struct Serve;

impl Experiment for Serve {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn about(&self) -> &'static str {
        "servers of one to ten thousand connections: requests, their price in CPU time and their latency"
    }

    fn methods(&self) -> Vec<&'static str> {
        METHODS.iter().map(|method| method.name()).collect()
    }

    fn takes(&self, _: List) -> bool {
        false
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let wanted = || METHODS.into_iter().filter(|method| options.wants(method.name()));
        let points = points(options.quick).into_iter();
        points
            .flat_map(|point| wanted().map(move |method| point.planned(method, options.quick)))
            .collect()
    }

    /// Of a fixed length. A round of `effort` is a millisecond.
    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let method = METHODS.into_iter().find(|method| method.name() == case.method);
        let (Some(method), Some(point)) = (method, Point::from_params(&case.params)) else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let window = Duration::from_millis(effort.rounds).min(effort.limit / 2);
        point.sample(method, window)
    }
}

/// All points of a method; a quick run leaves out the many connections.
fn points(quick: bool) -> Vec<Point> {
    let load = CONNECTIONS.into_iter().flat_map(|connections| {
        PIPELINES.map(|pipeline| Point { connections, kind: Kind::Load { pipeline } })
    });
    let idle = IDLE.map(|(connections, socket)| Point { connections, kind: Kind::Idle { socket } });
    load.chain(idle).filter(|point| !quick || point.connections <= MOST_QUICK).collect()
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
            Kind::Idle { socket } => params.with("socket", socket.name()),
        }
    }

    fn from_params(params: &Params) -> Option<Self> {
        let number = |key, most| {
            params.number(key).filter(|number| (1..=most).contains(number)).map(|it| it as usize)
        };
        let kind = match params.text("socket") {
            Some(name) => Kind::Idle { socket: Socket::from_name(name)? },
            None => Kind::Load { pipeline: number("pipeline", 1000)? },
        };
        Some(Self { connections: number("connections", 1_000_000)?, kind })
    }

    fn planned(self, method: &dyn Method, quick: bool) -> Planned {
        // Several requests of each connection; of idle ones, enough to see a thousandth of a CPU.
        let milliseconds = match (self.kind, quick) {
            (Kind::Load { .. }, false) if self.connections >= 10_000 => 1000,
            (Kind::Load { .. }, false) => 500,
            (Kind::Load { .. }, true) => 150,
            (Kind::Idle { .. }, false) => 1000,
            (Kind::Idle { .. }, true) => 400,
        };
        let supports = method.supports(self.connections).and(cpus().map(drop));
        let params = self.params();
        let case = Case { experiment: "serve".into(), method: method.name().into(), params };
        Planned { case, rounds: supports.map(|()| Rounds::Fixed(milliseconds)) }
    }

    fn sample(self, method: &dyn Method, window: Duration) -> Result<Sample, Failure> {
        let cpus = cpus().map_err(|skip| Failure::Unavailable(skip.reason));
        let (server_cpu, client_cpu) = cpus?;
        let spec = Spec { method, connections: self.connections, server_cpu, client_cpu, window };
        match self.kind {
            Kind::Load { pipeline } => spec.load(pipeline),
            Kind::Idle { socket } => spec.idle(socket),
        }
    }
}

/// The server's CPU and that of who asks.
fn cpus() -> Result<(usize, usize), Skip> {
    match host::cpu_list()[..] {
        [server, client, ..] => Ok((server, client)),
        _ => Err(Skip::new("two CPUs are needed: allow two")),
    }
}

#[cfg(test)]
mod tests;
