//! Many flows, whose receivers are woken by packets that follow them, late: kernel threads, and fibers.
//!
//! From Goda and Tago, "Improvement of load balancing at process wake-up that considers interrupts which follow the
//! process" (P3). Where the kernel steers packets (Receive Flow Steering), it has them processed on the CPU where their flow
//! was read last. It switches late, lest one overtakes another, so that a receiver that has moved is still woken from the
//! CPU that it has left, which takes it back there: a *swap*.
//!
//! | method | receivers |
//! |---|---|
//! | `threads` | a kernel thread for each flow, not bound, placed by the kernel |
//! | `daiko-pinned` | a fiber for each flow that never moves: 0 migrations are expected |
//! | `daiko-mover` | one that goes on where the worker has time for it that sees the packet, or where it was |
//! | `daiko-follow` | one that stays where it has moved to until a packet was processed there, or for 4 wake-ups |
//!
//! Receivers are a process of their own. Fibers have as many workers as CPUs are allowed, whose agents park at once (preset
//! `power`): CPU time is that of wake-ups then, and senders do not wait for who polls on their CPU. `flows` TCP connections over
//! the loopback of a network namespace without a name carry messages of 1024 bytes; every one is checked to be the
//! next of its flow. `rfs` says whether packets follow who reads them (`on`), or are processed where they are sent (`off`). A
//! sender on each CPU stands for a queue of a network card: see `sender.rs`.
//!
//! 1. `throughput`: messages received per second, each flow having at most 16 under way. Senders and receivers share the
//!    CPUs.
//! 2. 20,000 messages per second in all, due at times drawn beforehand (a Poisson process), each by any flow. `p99` is from when
//!    a message was *due* until it was read, `p99-sent` from when it was sent: senders share the CPUs, and are late. Per second:
//!    `wakes`, reads that had to wait; `migrations`, those of them that went on on another CPU than the read before; `swaps`,
//!    those of them to the CPU that processed the packet, which the receiver had left at the wake-up before. `settle` and
//!    `settle-max`: how many swaps followed one another, on average and at most, of the runs of swaps that had an end.
//!    `cpu`: of the receivers' process, of one CPU. Packets that are steered to an idle CPU are processed on nobody's account:
//!    `machine-cpu` is what all CPUs were busy, with whatever else runs on the machine.
//! 3. `llc-load-misses` and others, per second of 2., of the receivers' process, where the processor shows its counters.
//!
//! A wake-up costs the same two calls to receive under all methods, one for the CPU of the packet, and two looks at a clock
//! and a CPU number without a call.
//!
//! What makes kernel threads move at all: the senders, which have their CPU when they wake a receiver by a packet that
//! is processed there; other receivers, more of them than CPUs; and other load of the machine. On two CPUs a mover has only one
//! other place.

mod board;
mod fibers;
mod flow;
mod ground;
mod measure;
mod method;
mod sender;
mod threads;

use std::time::Duration;

use self::{
    ground::Ground,
    measure::Spec,
    method::{METHODS, Method},
};
use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Rounds, Sample, Skip, host,
};

const FLOWS: [usize; 4] = [2, 32, 128, 512];
const MOST_QUICK: usize = 32;
/// What may be asked for, so that a port is left for each.
const MOST: u64 = 10_000;

/// Receivers of many flows, woken by packets that follow them.
pub struct Follow;

impl Experiment for Follow {
    fn name(&self) -> &'static str {
        "follow"
    }

    fn about(&self) -> &'static str {
        "receivers of many flows, and where they go on when a packet wakes them: migrations, CPU time, latency"
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
        let (Some(method), Some(Point { flows, rfs })) = (method, Point::from_params(&case.params))
        else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let window = Duration::from_millis(effort.rounds).min(effort.limit / 2);
        Spec { method, flows, rfs, window }.sample()
    }
}

/// All points of a method; a quick run leaves out the many flows.
fn points(quick: bool) -> Vec<Point> {
    let flows = FLOWS.into_iter().filter(|flows| !quick || *flows <= MOST_QUICK);
    flows.flat_map(|flows| [false, true].map(|rfs| Point { flows, rfs })).collect()
}

/// What the parameters of a point say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    flows: usize,
    rfs: bool,
}

impl Point {
    fn params(self) -> Params {
        Params::new().with("flows", self.flows).with("rfs", if self.rfs { "on" } else { "off" })
    }

    fn from_params(params: &Params) -> Option<Self> {
        let flows = params.number("flows").filter(|flows| (1..=MOST).contains(flows))?;
        let rfs = match params.text("rfs")? {
            "on" => true,
            "off" => false,
            _ => return None,
        };
        Some(Self { flows: flows as usize, rfs })
    }

    fn planned(self, method: &dyn Method, quick: bool) -> Planned {
        let milliseconds = if quick { 200 } else { 1000 };
        let supports = method.supports().and(cpus()).and(Ground::supports(self.rfs));
        let params = self.params();
        let case = Case { experiment: "follow".into(), method: method.name().into(), params };
        Planned { case, rounds: supports.map(|()| Rounds::Fixed(milliseconds)) }
    }
}

/// With one CPU nobody moves.
fn cpus() -> Result<(), Skip> {
    if host::cpus() < 2 {
        return Err(Skip::new("two CPUs are needed: allow two"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
