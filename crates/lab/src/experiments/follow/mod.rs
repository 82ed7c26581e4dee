//! Receivers of many flows, as kernel threads and as fibers, woken by packets that follow them with
//! a delay.
//!
//! From Goda and Tago, "Improvement of load balancing at process wake-up that considers interrupts
//! which follow the process" (P3). With Receive Flow Steering, the kernel processes packets on the
//! CPU where their flow was last read. It switches late, so that no packet overtakes another. A
//! receiver that has moved is therefore still woken from the CPU that it has left, which takes it
//! back there: a *swap*.
//!
//! - `threads`: one kernel thread per flow, not bound, placed by the kernel.
//! - `daiko-pinned`: one fiber per flow that never moves; 0 migrations are expected.
//! - `daiko-mover`: a fiber continues on the worker that sees the packet if that worker has
//!   time, else on its previous worker.
//! - `daiko-follow`: after a move, a fiber stays until a packet was processed on its new worker,
//!   for at most 4 wake-ups.
//!
//! Receivers run in a process of their own. Fibers borrow the thread-locals of their worker. They
//! have one worker per allowed CPU, and the agents park at once (preset `power`): CPU time then
//! counts wake-ups only, and senders do not wait for agents that poll on their CPU. `flows` TCP
//! connections over the loopback of an unnamed network namespace carry messages of 1024 bytes;
//! each message is checked to be the next of its flow. `rfs` tells whether packets are processed
//! where they are read (`on`) or where they are sent (`off`). A sender on each CPU represents a
//! queue of a network card: see `sender.rs`.
//!
//! 1. `throughput`: messages received per second, with at most 16 messages of each flow in flight.
//!    Senders and receivers share the CPUs.
//! 2. 20,000 messages per second in all, due at times drawn beforehand (a Poisson process), each on
//!    a random flow. `p99` is the latency from the due time of a message until it was read,
//!    `p99-sent` that from its sending time: senders share the CPUs and are late. Per second:
//!    `wakes`, reads that had to wait; `migrations`, those of them that continued on another CPU
//!    than the previous read; `swaps`, migrations to the CPU that processed the packet and that the
//!    receiver had left at the previous wake-up. `settle` and `settle-max`: the average and the
//!    largest length of completed runs of consecutive swaps. `cpu`: CPU time of the receivers'
//!    process, relative to one CPU. Packets that are steered to an idle CPU are charged to no
//!    process; `machine-cpu` is therefore the busy time of all CPUs, including any other load of
//!    the machine.
//! 3. `llc-load-misses` and further counters of the receivers' process, per second of part 2, where
//!    the processor provides them.
//!
//! All methods do the same work per wake-up: two calls to receive, one call for the CPU of the
//! packet, and two readings of a clock and of a CPU number, which need no system call.
//!
//! Kernel threads move because the senders occupy their CPU when they wake a receiver by a packet
//! processed there, because there are more receivers than CPUs, and because of other load of the
//! machine. On two CPUs a migratable fiber has only one other place.

mod board;
mod fibers;
mod figures;
mod flow;
mod ground;
mod measure;
mod method;
mod published;
mod sender;
mod threads;

use self::ground::Ground;
use self::measure::FollowSpec;
use self::method::Receiving;
use crate::kit::{Choice, Experiment, Measure, Params, Plan, Rounds, host};

/// The methods, in the order of tables. A new method is added here.
const METHODS: [&[Receiving]; 2] = [&[threads::METHOD], &fibers::METHODS];

fn methods() -> impl Iterator<Item = Receiving> {
    METHODS.into_iter().flatten().copied()
}

const FLOWS: [usize; 4] = [2, 32, 128, 512];
const MOST_QUICK: usize = 32;
/// Largest number of flows that may be requested, so that a port is left for each.
const MOST: usize = 10_000;

/// Receivers of many flows, woken by packets that follow them.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: published::NAME,
    about: "receivers of many flows, and where they continue when a packet wakes them: migrations, CPU time, latency",
    sizes: &["flows"],
    lists: &[],
    methods: || methods().map(|method| method.name).collect(),
    cases,
    measure,
    published: published::points,
    sections: figures::sections,
};

/// Plans all points. A quick run leaves out large numbers of flows. With one CPU no receiver moves.
fn cases(plan: &mut Plan<'_>) {
    let quick = plan.options.quick;
    for flows in FLOWS.into_iter().filter(|flows| !quick || *flows <= MOST_QUICK) {
        for rfs in Rfs::all() {
            for method in methods() {
                let supports = host::two_cpus().and(Ground::supports(rfs == Rfs::On));
                let rounds = supports.map(|()| Rounds::Fixed(if quick { 200 } else { 1000 }));
                let params = Params::new().with("flows", flows).with("rfs", rfs);
                plan.add(method.name, params, rounds);
            }
        }
    }
}

/// Measures windows of a fixed length.
fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = methods().find(|known| known.name == method)?;
    let flows = params.size("flows").filter(|flows| (1..=MOST).contains(flows))?;
    let rfs = params.choice::<Rfs>("rfs")? == Rfs::On;
    Some(Box::new(move |effort| {
        FollowSpec { method, flows, rfs, window: effort.window() }.sample()
    }))
}

/// Place where packets are processed: at their reader (`On`), or where they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rfs {
    Off,
    On,
}

impl Choice for Rfs {
    const NAMES: &'static [(Self, &'static str)] = &[(Self::Off, "off"), (Self::On, "on")];
}

#[cfg(test)]
mod tests;
