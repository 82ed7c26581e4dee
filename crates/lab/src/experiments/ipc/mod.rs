//! Cost of a question to another process.
//!
//! `clients` processes ask one server: each sends `bytes` bytes, waits for the answer, checks it
//! and asks again. With `placement=two-cpus` the server is on one CPU and all clients are on
//! another; with `one-cpu` all share one.
//!
//! - `spin`: a mailbox of one line: messages in a slot of shared memory per client, with the flag
//!   and the message together; the answer replaces the question. A client polls its slot, the
//!   server polls all slots.
//! - `mailbox`: a mailbox of two lines: the question and the answer lie apart, each with its flag.
//!   Both sides poll; where they share a CPU, they yield it between two looks.
//! - `spin-futex`: the same slots. A waiter polls 300 times, then sleeps on a futex.
//! - `futex`: the same slots. A waiter sleeps on a futex.
//! - `eventfd`, `semaphore`: the same slots. A waiter sleeps on an event counter or a `sem_t`; the
//!   server has one for all clients.
//! - `pipe`, `unix-socket`, `tcp`: one connection per client. A waiter reads; a server of several
//!   clients waits by epoll.
//! - `mpi`: Open MPI between processes of one machine. A waiter receives; it yields the CPU where
//!   processes share one.
//! - `redis`: GET by a Unix socket. A waiter reads.
//! - `iceoryx2`: requests and responses of iceoryx2. Both sides poll, as with `mailbox`. Only in
//!   programs that were built with the feature `iceoryx2`.
//! - `daiko`: a call with a deadline, from a fiber to a service.
//! - `daiko-watch`, `daiko-poller`: the slots and the server of `spin`. A client is a fiber with a
//!   polled watch of its slot, or with a poller, that says whether the server has another CPU.
//!
//! 1. All clients call until they know how many calls of the quickest client take 25 us: a batch.
//! 2. All begin together and call for a fixed time, in batches with a clock reading between them. A
//!    point's median is that of the batches of all clients, so it contains no clock reading. The
//!    same calls give `throughput`, calls per second of all clients, and `share`, the calls of the
//!    slowest client relative to the mean of all.
//! 3. For the same time again, each call is timed by itself: `p50`, `p99`, `p999`, `max`. These
//!    contain a copy of the question from the client's memory and a copy of the answer to it.
//!
//! Each answer has other words than its question, so that the server reads and writes all of a
//! message. In batches a call's time also contains the client's work to write each question and to
//! check each answer; calls that are timed one by one leave it out.
//!
//! The processes are forked by the process of the sample, are killed with it, and are pinned.

mod client;
mod daiko;
mod eventfd;
mod figures;
mod forked;
#[cfg(feature = "iceoryx2")]
mod iceoryx2;
mod mailbox;
mod method;
mod mpi;
mod outcome;
mod redis;
mod semaphore;
mod silent;
mod sleepers;
mod slot;
mod slotted;
mod spin;
mod streams;

use std::time::Duration;

use self::daiko::Daiko;
use self::eventfd::EventFd;
use self::forked::forked;
use self::mailbox::Mailbox;
use self::method::{BYTES, IpcSpec, Link, Mechanism};
#[doc(hidden)]
pub use self::mpi::sample_of;
use self::redis::Redis;
use self::semaphore::ProcessSemaphore;
use self::silent::{DaikoPoller, DaikoWatch};
use self::sleepers::{Futex, SpinFutex};
use self::slotted::Slotted;
use self::spin::Spin;
use self::streams::{Pipe, Streams, Tcp, UnixSocket};
use crate::kit::{Choice, Experiment, Failure, Measure, Params, Plan, Rounds, Skip, host};

/// The methods, in the order of tables. A new method is added here.
const METHODS: [Mechanism; 15] = [
    forked::<Spin>(),
    forked::<Mailbox>(),
    forked::<SpinFutex>(),
    forked::<Futex>(),
    forked::<Streams<Pipe>>(),
    forked::<Streams<UnixSocket>>(),
    forked::<Slotted<EventFd>>(),
    forked::<Slotted<ProcessSemaphore>>(),
    forked::<Streams<Tcp>>(),
    mpi::METHOD,
    forked::<Redis>(),
    ICEORYX2,
    forked::<Daiko>(),
    forked::<DaikoWatch>(),
    forked::<DaikoPoller>(),
];

#[cfg(feature = "iceoryx2")]
const ICEORYX2: Mechanism = forked::<iceoryx2::Iceoryx2>();

#[cfg(not(feature = "iceoryx2"))]
const ICEORYX2: Mechanism = {
    fn skip() -> Skip {
        Skip::new("built without it (cargo build --release -p daiko-cli --features iceoryx2)")
    }
    Mechanism { name: method::ICEORYX2, supports: || Err(skip()), run: |_| Err(skip().into()) }
};

/// The methods whose server polls without end: where clients share its CPU, a call takes a time
/// slice.
const POLLING: [&str; 3] = [Spin::NAME, DaikoWatch::NAME, DaikoPoller::NAME];

const CLIENTS: [usize; 3] = [1, 4, 16];

/// Questions and answers between processes, by every mechanism.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "question and answer between processes, one to sixteen clients of one server",
    sizes: &["clients"],
    lists: &[],
    methods: || METHODS.iter().map(|method| method.name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

/// Plans all points. A quick run has the shortest messages, without four clients and points that
/// take long, and the longest messages of one client.
fn cases(plan: &mut Plan<'_>) {
    let quick = plan.options.quick;
    let wanted: Vec<_> = METHODS
        .iter()
        .filter(|method| plan.wants(method.name))
        .map(|method| (method.name, (method.supports)()))
        .collect();
    for point in points().filter(|point| !quick || point.is_quick()) {
        for (method, supports) in &wanted {
            let slices = POLLING.contains(method) && point.placement == Placement::OneCpu;
            if !quick || !slices || point.clients == 1 {
                let rounds = supports.clone().and(point.placement.cpus());
                let milliseconds = point.milliseconds(slices, quick);
                plan.add(method, point.params(), rounds.map(|_| Rounds::Fixed(milliseconds)));
            }
        }
    }
}

/// Measures windows of a fixed length.
fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = METHODS.into_iter().find(|known| known.name == method)?;
    let point = Point::from_params(params)?;
    Some(Box::new(move |effort| (method.run)(&point.spec(effort.window())?)?.into_sample()))
}

/// Placement of the processes on CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    TwoCpus,
    OneCpu,
}

impl Choice for Placement {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::TwoCpus, "two-cpus"), (Self::OneCpu, "one-cpu")];
}

impl Placement {
    /// CPUs of the server and of the clients.
    fn cpus(self) -> Result<(usize, usize), Skip> {
        match (self, host::cpu_list().first()) {
            (Self::OneCpu, Some(&cpu)) => Ok((cpu, cpu)),
            _ => host::two_cpus(),
        }
    }
}

/// Parameters of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    bytes: usize,
    placement: Placement,
    clients: usize,
}

/// All points of a method.
fn points() -> impl Iterator<Item = Point> {
    let of_bytes = |bytes| Placement::all().map(move |placement| (bytes, placement));
    BYTES
        .into_iter()
        .flat_map(of_bytes)
        .flat_map(|(bytes, placement)| CLIENTS.map(|clients| Point { bytes, placement, clients }))
}

impl Point {
    fn params(self) -> Params {
        let params = Params::new().with("bytes", self.bytes).with("placement", self.placement);
        params.with("clients", self.clients)
    }

    fn from_params(params: &Params) -> Option<Self> {
        Some(Self {
            bytes: params.size("bytes")?,
            placement: params.choice("placement")?,
            clients: params.size("clients").filter(|clients| (1..=1000).contains(clients))?,
        })
    }

    fn is_quick(self) -> bool {
        match self.bytes {
            8 => self.clients != 4,
            65536 => self.clients == 1,
            _ => false,
        }
    }

    /// Length of a window: long enough for each of many clients to have several time slices.
    fn milliseconds(self, slices: bool, quick: bool) -> u64 {
        match (slices || self.clients > 1, quick) {
            (false, false) => 60,
            (false, true) => 20,
            (true, false) => 400,
            (true, true) => 120,
        }
    }

    fn spec(self, window: Duration) -> Result<IpcSpec, Failure> {
        let (server_cpu, client_cpu) = self.placement.cpus()?;
        let Self { bytes, clients, .. } = self;
        Ok(IpcSpec { clients, bytes, server_cpu, client_cpu, window })
    }
}

#[cfg(test)]
mod tests;
