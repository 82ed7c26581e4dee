//! Cost of transactions of many sessions: one program on fibers, kernel threads and tasks.
//!
//! The program is Daiko's example `memdb`: tables of 2 warehouses in a segment, a latch for each
//! warehouse, transactions like those of TPC-C in its mix (the example states the differences; no
//! figure here is one of TPC-C), and a log of requests. All methods run the same source for all
//! of that; a session waits by its library, and so does the log:
//!
//! - `daiko`: a fiber for each session, on one worker; locks of `daiko::sync`, and `daiko::fs`. The
//!   session that needs the log first writes for all that wait. Transactions are calls on pooled
//!   stacks.
//! - `threads`: a kernel thread for each session, with a stack of 128 KiB; locks of `std`. The log
//!   is as for `daiko`.
//! - `tokio`: a task for each session, in the multi-threaded runtime with one worker. Latches are
//!   locks of `std`, which no task holds while it waits. A thread of its own writes the log, and
//!   wakes the tasks.
//! - `daiko-run`: the server of `threads`, by `daiko run` with one worker (`transport=tcp` only).
//!
//! `sessions` wait for requests:
//!
//! - `transport=in-process`: a session waits until the load wakes it, draws a transaction, carries
//!   it out, waits for the log, and notes its end in memory.
//! - `transport=tcp`: a server in a process of its own has a session for each connection over the
//!   loopback; the load sends the transactions.
//!
//! The load is one thread, the same for all methods, on a CPU of its own. It never sleeps, and its
//! CPU time does not count. All threads of the program are on another CPU. With `log=always` a
//! transaction that changes rows is acknowledged once its record is synchronised, in the temporary
//! folder (`TMPDIR`), which has to be on a device; with `log=none` there is no log.
//!
//! 1. All sessions send, and again as soon as they are answered, for a quarter of the time, which
//!    does not count.
//! 2. The same for the whole time gives `throughput`, transactions per second; `cpu-throughput`,
//!    transactions per second of the program's CPU time, in user space and in the kernel; and
//!    `server-cpu`, the used part of its CPU.
//! 3. Transactions are due at times drawn beforehand, the same for all methods: those of a Poisson
//!    process with 5,000 per second, each of a random session. `p50` and `p99` are the latencies
//!    from when a transaction was *due* until it was answered. `client-stall` is as for `serve`.
//!    A method with less throughput than that has latencies that grow with the time.

mod fibers;
mod figures;
mod in_process;
mod load;
mod parts;
mod point;
mod served;
mod setup;
mod tasks;
mod tcp;
#[cfg(test)]
mod tests;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use self::in_process::{Mailboxes, WakeSession};
use self::load::{LOAD_PER_SECOND, Load, Transport};
use self::point::{LogKind, SessionPoint, THREADS, TransportKind};
use self::served::ServerKind;
use self::setup::DatabaseSetup;
use crate::kit::{
    Choice, Experiment, Failure, List, Measure, OrFailure, Params, Plan, Reading, Rounds, Sample,
    Skip, dropin, files, host, thread_limits,
};

/// Transactions of many sessions.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "a database of ten to ten thousand sessions: transactions, their CPU time and their latency",
    sizes: &["sessions"],
    lists: &[List::Threads],
    methods: || METHODS.iter().map(|method| method.name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

/// Starts the sessions of a database.
type StartSessions = fn(&DatabaseSetup<'_>, Arc<Mailboxes>) -> Result<WakeSession, Failure>;

/// A library with sessions.
struct SessionMethod {
    name: &'static str,
    /// Starts sessions in this process, on the CPU of the caller.
    start: Option<StartSessions>,
    serve: ServerKind,
}

const METHODS: [SessionMethod; 4] = [
    SessionMethod {
        name: "daiko",
        start: Some(fibers::start),
        serve: ServerKind::Fork(fibers::serve),
    },
    SessionMethod { name: "daiko-run", start: None, serve: ServerKind::Run },
    SessionMethod {
        name: THREADS,
        start: Some(threads::start),
        serve: ServerKind::Fork(threads::serve),
    },
    SessionMethod {
        name: "tokio",
        start: Some(tasks::start),
        serve: ServerKind::Fork(tasks::serve),
    },
];

const SESSIONS: [usize; 4] = [10, 100, 1000, 10_000];
const SESSIONS_QUICK: [usize; 2] = [10, 1000];

fn cases(plan: &mut Plan<'_>) {
    let quick = plan.options.quick;
    let own = if quick { SESSIONS_QUICK.to_vec() } else { SESSIONS.to_vec() };
    let all = plan.options.threads.clone().unwrap_or(own);
    for point in points(&all) {
        for method in METHODS.iter().filter(|method| method.has(point)) {
            let rounds = supports(method, point).map(|()| Rounds::Fixed(point.milliseconds(quick)));
            plan.add(method.name, point.params(), rounds);
        }
    }
}

fn points(sessions: &[usize]) -> impl Iterator<Item = SessionPoint> {
    let kinds =
        TransportKind::all().flat_map(|transport| LogKind::all().map(move |log| (transport, log)));
    kinds.flat_map(move |(transport, log)| {
        sessions.iter().map(move |&sessions| SessionPoint { transport, log, sessions })
    })
}

fn supports(method: &SessionMethod, point: SessionPoint) -> Result<(), Skip> {
    host::two_cpus()?;
    if method.name == THREADS {
        thread_limits::check(point.sessions)?;
    }
    if point.transport == TransportKind::Tcp {
        files::check_allowed(point.sessions)?;
    }
    if matches!(method.serve, ServerKind::Run) {
        dropin::command(1)?;
    }
    if point.log == LogKind::Always { files::check_device() } else { Ok(()) }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    if let Some(served) = served::measure(method, params) {
        return Some(served);
    }
    let method = METHODS.iter().find(|known| known.name == method)?;
    let point = SessionPoint::from_params(params).filter(|&point| method.has(point))?;
    Some(Box::new(move |effort| method.sample(point, effort.window())))
}

impl SessionMethod {
    fn has(&self, point: SessionPoint) -> bool {
        point.transport == TransportKind::Tcp || self.start.is_some()
    }

    fn sample(&self, point: SessionPoint, window: Duration) -> Result<Sample, Failure> {
        let (server_cpu, client_cpu) = host::two_cpus()?;
        let bind = |cpu| host::bind(cpu).or_limit("cannot bind to a CPU");
        // All that is started here stays there.
        bind(server_cpu)?;
        match point.transport {
            TransportKind::InProcess => {
                let start = self.start.ok_or_else(|| self.no_sessions())?;
                let folder = host::temporary_folder()?;
                let path = folder.path().join("log");
                let mailboxes = Arc::new(Mailboxes::new(point.sessions, window, LOAD_PER_SECOND));
                let wake = start(&point.setup(&path), Arc::clone(&mailboxes))?;
                bind(client_cpu)?;
                let sessions = in_process::InProcess::new(wake, mailboxes);
                loaded(sessions, window, in_process::engine_cpu_ns)
            }
            TransportKind::Tcp => {
                files::allow(point.sessions)?;
                let server = served::SessionServer::start(self.serve, point)?;
                bind(client_cpu)?;
                let loaded = tcp::TcpSessions::connect(&server, point.sessions)
                    .and_then(|sessions| loaded(sessions, window, || server.cpu_ns()));
                let loaded = loaded.map_err(|failure| server.explain(failure));
                server.check().and(loaded)
            }
        }
    }

    fn no_sessions(&self) -> Failure {
        Failure::Broken(format!("{} has no sessions in this process", self.name))
    }
}

/// Puts the load on sessions that have started. `cpu_ns` returns the CPU time of the program.
fn loaded(
    sessions: impl Transport,
    window: Duration,
    cpu_ns: impl Fn() -> u64,
) -> Result<Sample, Failure> {
    let mut load = Load::new(sessions);
    load.closed(window / 4, &cpu_ns)?;
    let closed = load.closed(window, &cpu_ns)?;
    if closed.transactions == 0 {
        let line = "no transaction was answered within the time of a sample";
        return Err(Failure::TooShort(line.into()));
    }
    let open = load.open(LOAD_PER_SECOND, window)?;
    let count = closed.transactions as f64;
    let mut readings = vec![
        Reading::rate("throughput", count, closed.elapsed_ns),
        Reading::rate("cpu-throughput", count, closed.cpu_ns),
        Reading::percent("server-cpu", closed.cpu_ns, closed.elapsed_ns),
        Reading::percent("client-stall", open.stalled_ns, open.elapsed_ns),
    ];
    readings.extend(open.latencies.readings(&[("p50", 500), ("p99", 990)]));
    let elapsed = Duration::from_nanos(closed.elapsed_ns);
    Ok(Sample { rounds: closed.transactions, elapsed, readings })
}
