//! Many flows, whose receivers are woken by packets that follow them, late: kernel threads, and
//! fibers.
//!
//! From Goda and Tago, "Improvement of load balancing at process wake-up that considers interrupts
//! which follow the process" (P3). Where the kernel steers packets (Receive Flow Steering), it has
//! them processed on the CPU where their flow was read last. It switches late, lest one overtakes
//! another, so that a receiver that has moved is still woken from the CPU that it has left, which
//! takes it back there: a *swap*.
//!
//! | method | receivers |
//! |---|---|
//! | `threads` | a kernel thread for each flow, not bound, placed by the kernel |
//! | `daiko-pinned` | a fiber for each flow that never moves: 0 migrations are expected |
//! | `daiko-migratable` | one that goes on where the worker has time for it that sees the packet, or where it was |
//! | `daiko-follow` | one that stays where it has moved to until a packet was processed there, or for 4 wake-ups |
//!
//! Receivers are a process of their own. Fibers have as many workers as CPUs are allowed, whose
//! agents park at once (preset `power`): CPU time is that of wake-ups then, and senders do not wait
//! for who polls on their CPU. `flows` TCP connections over the loopback of a network namespace
//! without a name carry messages of 1024 bytes; every one is checked to be the next of its flow.
//! `rfs` says whether packets follow who reads them (`on`), or are processed where they are sent
//! (`off`). A sender on each CPU stands for a queue of a network card: see `sender.rs`.
//!
//! 1. `throughput`: messages received per second, each flow having at most 16 under way. Senders
//!    and receivers share the CPUs.
//! 2. 20,000 messages per second in all, due at times drawn beforehand (a Poisson process), each by
//!    any flow. `p99` is from when a message was *due* until it was read, `p99-sent` from when it
//!    was sent: senders share the CPUs, and are late. Per second: `wakes`, reads that had to wait;
//!    `migrations`, those of them that went on on another CPU than the read before; `swaps`, those
//!    of them to the CPU that processed the packet, which the receiver had left at the wake-up
//!    before. `settle` and `settle-max`: how many swaps followed one another, on average and at
//!    most, of the runs of swaps that had an end. `cpu`: of the receivers' process, of one CPU.
//!    Packets that are steered to an idle CPU are processed on nobody's account: `machine-cpu` is
//!    what all CPUs were busy, with whatever else runs on the machine.
//! 3. `llc-load-misses` and others, per second of 2., of the receivers' process, where the
//!    processor shows its counters.
//!
//! A wake-up costs the same two calls to receive under all methods, one for the CPU of the packet,
//! and two looks at a clock and a CPU number without a call.
//!
//! What makes kernel threads move at all: the senders, which have their CPU when they wake a
//! receiver by a packet that is processed there; other receivers, more of them than CPUs; and other
//! load of the machine. On two CPUs a migratable fiber has only one other place.

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

use self::{ground::Ground, measure::Spec, method::Receiving};
use crate::kit::{Choice, Experiment, Measure, Params, Plan, Rounds, host};

/// The methods, in the order of tables. Another one is added here.
const METHODS: [&[Receiving]; 2] = [&[threads::METHOD], &fibers::METHODS];

fn methods() -> impl Iterator<Item = Receiving> {
    METHODS.into_iter().flatten().copied()
}

const FLOWS: [usize; 4] = [2, 32, 128, 512];
const MOST_QUICK: usize = 32;
/// What may be asked for, so that a port is left for each.
const MOST: usize = 10_000;

/// Receivers of many flows, woken by packets that follow them.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: published::NAME,
    about: "receivers of many flows, and where they go on when a packet wakes them: migrations, CPU time, latency",
    sizes: &["flows"],
    lists: &[],
    methods: || methods().map(|method| method.name).collect(),
    cases,
    measure,
    published: published::points,
    sections: figures::sections,
};

/// A quick run leaves out the many flows. With one CPU no receiver moves.
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

/// Of a fixed length.
fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = methods().find(|known| known.name == method)?;
    let flows = params.size("flows").filter(|flows| (1..=MOST).contains(flows))?;
    let rfs = params.choice::<Rfs>("rfs")? == Rfs::On;
    Some(Box::new(move |effort| Spec { method, flows, rfs, window: effort.window() }.sample()))
}

/// Whether packets follow who reads them.
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
