//! Cost of serving many connections: a key-value store and an echo.
//!
//! A server, in a process of its own, is on one CPU. One client thread on another CPU sends
//! requests on `connections` connections over the loopback. Its requests are prepared beforehand,
//! every byte of the replies is compared, and it never sleeps, whichever server it measures.
//!
//! - `kv`: Daiko's example in memory, on one worker. It gets nine GET for each SET, of 1024 keys
//!   with values of 64 bytes.
//! - `redis`: `redis-server`, which writes nothing to disk, with the same requests.
//! - `echo-daiko`: a fiber for each connection, on one worker. All echoes get messages of 64 bytes.
//! - `echo-daiko-epoll`, `-uring`: the same, with a fixed way to ask the kernel for events.
//! - `echo-daiko-uring-irq`: the same, by io_uring that interrupts the worker for each change.
//! - `echo-tokio`: a task of tokio for each connection, in its multi-threaded runtime with one
//!   worker.
//! - `echo-tokio-single`: the same in its single-threaded runtime.
//! - `echo-threads`: a kernel thread for each connection.
//!
//! `pipeline` requests are sent together, and the next batch when all of them are answered.
//!
//! 1. All connections are opened and served once. Then all send as fast as they are answered, for a
//!    quarter of the time, which does not count.
//! 2. The same for the whole time gives: `throughput`, requests answered per second;
//!    `cpu-throughput`, requests per second of the server's CPU time, in user space and in the
//!    kernel; `server-cpu`, the used part of its CPU; and `client-cpu`, the part of the time in
//!    which the client had work. If that is near 100 and `server-cpu` is not, the client limits the
//!    throughput. `share` is the number of answers to the least served connection, relative to the
//!    mean: a server that lets many connections wait works in a smaller memory.
//! 3. Requests are due at times drawn beforehand, those of a Poisson process with half of that
//!    throughput, on a random connection, whether or not earlier requests are answered. `p50`,
//!    `p99` and `p999` are the latencies from when a request was *due* until it was answered. With
//!    `pipeline` 16, sixteen requests are due together, and answered with the last of them.
//!    `client-stall` is the part of that time in which the client did not run, for more than 1 ms
//!    at a time: if it is near 1 or more, p99 shows the machine rather than the server.
//!
//! Points with `fsync` are of stores that write each change to a log in the temporary folder
//! (`TMPDIR`), which has to be on a device, and synchronise it each second (`everysec`) or before
//! the reply (`always`). `writes` per cent of the requests are SET. `redis` runs with `appendonly
//! yes` and that `appendfsync`; the CPU time is that of all threads of the server, which are on its
//! CPU.
//!
//! Points without `pipeline` are of connections that were served once and are now silent:
//! `idle-memory`, the growth of the server's `VmRSS + VmPTE` in bytes per connection; and
//! `idle-cpu`. The kernel's memory for a socket is not included. 100,000 connections use a Unix
//! socket, as there are not enough ports.

mod echo;
mod echo_daiko;
mod echo_go;
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
mod several_workers;

use std::time::Duration;

use self::kv::{Fsync, LogLoad};
use self::measure::ServeSpec;
use self::method::ServerMethod;
pub(super) use self::several_workers::{EchoServer, WORKERS as ECHO_WORKERS, echo_sample};
use crate::kit::address::Socket;
use crate::kit::{Choice, Experiment, Failure, Measure, Params, Plan, Rounds, Sample, files, host};

/// The methods, in the order of tables. A new method is added here.
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
/// Connections to stores with a log, and per cent of their requests that write.
const CONNECTIONS_LOGGED: [usize; 3] = [1, 50, 1000];
const WRITES: [usize; 2] = [10, 100];
const PIPELINES: [usize; 2] = [1, 16];
const IDLE: [(usize, Socket); 3] =
    [(1000, Socket::Tcp), (10_000, Socket::Tcp), (100_000, Socket::Unix)];
const MOST_QUICK: usize = 1000;

/// Requests of many connections to one server.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "servers of one to ten thousand connections: requests, their CPU time and their latency",
    sizes: &["connections"],
    lists: &[],
    methods: || methods().map(|method| method.name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

/// Plans all points. A quick run leaves out large numbers of connections.
fn cases(plan: &mut Plan<'_>) {
    let quick = plan.options.quick;
    for point in points().filter(|point| !quick || point.connections <= MOST_QUICK) {
        let is_logged = point.log().is_some();
        for method in methods().filter(|method| !is_logged || method.serve_logged.is_some()) {
            let supports = (method.supports)(point.connections).and(host::two_cpus());
            let supports =
                supports.and_then(|_| if is_logged { files::check_device() } else { Ok(()) });
            let rounds = supports.map(|_| Rounds::Fixed(point.milliseconds(quick)));
            plan.add(method.name, point.params(), rounds);
        }
    }
}

/// Measures windows of a fixed length.
fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = methods().find(|known| known.name == method)?;
    let point = Point::from_params(params)?;
    if point.log().is_some() && method.serve_logged.is_none() {
        return None;
    }
    Some(Box::new(move |effort| point.sample(method, effort.window())))
}

/// All points of a method.
fn points() -> impl Iterator<Item = Point> {
    let load = CONNECTIONS.into_iter().flat_map(|connections| {
        PIPELINES.map(|pipeline| Point {
            connections,
            kind: ConnectionLoad::Load { pipeline, log: None },
        })
    });
    let logs = Fsync::all().flat_map(|fsync| WRITES.map(|writes| LogLoad { fsync, writes }));
    let logged = logs.flat_map(|log| {
        CONNECTIONS_LOGGED.into_iter().flat_map(move |connections| {
            PIPELINES.map(|pipeline| Point {
                connections,
                kind: ConnectionLoad::Load { pipeline, log: Some(log) },
            })
        })
    });
    load.chain(logged).chain(
        IDLE.map(|(connections, socket)| Point {
            connections,
            kind: ConnectionLoad::Idle { socket },
        }),
    )
}

/// Parameters of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    connections: usize,
    kind: ConnectionLoad,
}

/// Activity of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionLoad {
    Load { pipeline: usize, log: Option<LogLoad> },
    Idle { socket: Socket },
}

impl Point {
    fn params(self) -> Params {
        let params = Params::new().with("connections", self.connections);
        match self.kind {
            ConnectionLoad::Load { pipeline, log: None } => params.with("pipeline", pipeline),
            ConnectionLoad::Load { pipeline, log: Some(LogLoad { fsync, writes }) } => {
                params.with("pipeline", pipeline).with("fsync", fsync).with("writes", writes)
            }
            ConnectionLoad::Idle { socket } => params.with("socket", socket),
        }
    }

    fn from_params(params: &Params) -> Option<Self> {
        let number = |key, most| params.size(key).filter(|number| (1..=most).contains(number));
        let kind = match params.get("socket") {
            Some(_) => ConnectionLoad::Idle { socket: params.choice("socket")? },
            None => {
                let log = match params.get("fsync") {
                    Some(_) => Some(LogLoad {
                        fsync: params.choice("fsync")?,
                        writes: number("writes", 100)?,
                    }),
                    None => None,
                };
                ConnectionLoad::Load { pipeline: number("pipeline", 1000)?, log }
            }
        };
        Some(Self { connections: number("connections", 1_000_000)?, kind })
    }

    /// Length of a part: enough for several requests of each connection, and with idle connections
    /// to measure a thousandth of a CPU.
    fn milliseconds(self, quick: bool) -> u64 {
        match (self.kind, quick) {
            (ConnectionLoad::Load { .. }, false) if self.connections >= 10_000 => 1000,
            (ConnectionLoad::Load { .. }, false) => 500,
            (ConnectionLoad::Load { .. }, true) => 150,
            (ConnectionLoad::Idle { .. }, false) => 1000,
            (ConnectionLoad::Idle { .. }, true) => 400,
        }
    }

    fn log(self) -> Option<LogLoad> {
        match self.kind {
            ConnectionLoad::Load { log, .. } => log,
            ConnectionLoad::Idle { .. } => None,
        }
    }

    fn sample(self, method: ServerMethod, window: Duration) -> Result<Sample, Failure> {
        let (server_cpu, client_cpu) = host::two_cpus()?;
        let begin = || host::bind(server_cpu);
        let connections = self.connections;
        let log = self.log();
        let spec = ServeSpec { method, log, connections, begin: &begin, client_cpu, window };
        match self.kind {
            ConnectionLoad::Load { pipeline, .. } => spec.load(pipeline),
            ConnectionLoad::Idle { socket } => spec.idle(socket),
        }
    }
}

#[cfg(test)]
mod tests;
