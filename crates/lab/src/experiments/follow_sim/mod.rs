//! Wake-ups whose interrupts follow their tasks, simulated: P3.
//!
//! Receive Flow Steering has a flow's packets processed on the CPU where its task last asked for data, and switches late. Under the policy of
//! kernels a task that has moved is therefore taken back by the next wake-up, and so on: *unintended* migrations, here *swaps*. The
//! simulator counts them under that policy and under P3's, both those of [`daiko_core::place`].
//!
//! # What is assumed
//!
//! 1. **Packets** come in bursts; the bursts of each flow are a Poisson process, their lengths geometrically distributed, and their packets
//!    a fixed gap apart. They come whatever the tasks do (open loop). The network card's own interrupt costs nothing.
//! 2. **Steering** is that of `get_rps_cpu` in the kernel's `net/core/dev.c`. One table has where the flow's task last called the socket; it calls
//!    when it has read a packet, so a task that was woken elsewhere is known to be there only when it has read. Another has the CPU that
//!    gets the flow's packets, and how far that one's backlog was filled behind the last. The CPU is changed when a packet comes,
//!    and only if the backlog has been processed that far. **Lag** is in addition, in microseconds: what a task's call has
//!    written into the table takes so long to reach whoever steers (a card that is told by a work item, or that samples). One
//!    change is on its way at a time. Without steering (`steering=hash`) a flow's CPU is always the same.
//! 3. **Interrupts** take a fixed time for each packet, before all tasks of their CPU, and wake the task from there if it sleeps. A CPU at an
//!    interrupt is idle to the policy if it has no task, as in the kernel.
//! 4. **Tasks**, one for each flow, wait in turn for their CPU, with a time slice. Each packet takes an exponentially distributed time to read, and a
//!    fixed one more if the task first runs on another CPU.
//! 5. **What makes tasks move at first** is that the waking CPU is not idle: another flow's task runs there, or *other load*, bursts of
//!    work that stay on their CPU and that woken tasks preempt. A balancer moves a waiting task from the longest queue to an
//!    idle CPU every few milliseconds.
//!
//! All CPUs are alike and of one domain: no caches, no hardware threads that share a core.
//!
//! # What is counted
//!
//! `migrations`, of wake-ups and balancer; `unintended`, the swaps among them; `settle-mean` and `settle-max`, how many swaps of a task
//! follow each other until a wake-up that is none, and `settled-N`, which part of them takes `N`; `p50` and `p99`, the time from a packet's
//! arrival until the task that it wakes runs; `cpu`, the CPU time of interrupts and tasks. All of it is in simulated time, and the same for the same seed
//! on any machine. `speed` is how many wake-ups the simulator does in a second of this machine's CPU time; the fewer packets find their task awake, and the less other
//! load there is, the more of its events are wake-ups (`burst=1`, `load=0`).
//!
//! # Whether P3's figures appear
//!
//! They do, together, under the assumptions of [`Model::default`]: trains of 20 packets 30 us apart, 59 us of work for each, CPUs half of whose time other
//! bursts of 25 us take, and a lag of 20 to 30 us, which is near the gap. Then 8 to 9% of migrations are unintended, it takes 1.2 wake-ups to settle
//! and 5 to 8 at most (more in a longer run), P3's policy leaves 52 to 53% of migrations, and their number per second is within a third of P3's.
//!
//! * Swaps need a wake-up that was on its way when the task moved: the lag, or a backlog, must be about as long as from one wake-up to
//!   the next. Much longer, wake-ups and steering no longer alternate: swaps come one at a time (1.0 wake-ups). Much shorter, there are
//!   hardly any: 2% without lag.
//! * Without lag the backlog alone does it where interrupts take as long as the gaps of a train (5.5 us and 7.9 us, trains of 4: 9%, 1.20,
//!   10, -45%), at fifty times P3's migrations per second.
//! * Most of what P3's policy saves are not swaps: those are 8%, the change is -48%. It also keeps a task that would go on to a third CPU
//!   since the waking one is busy, and each move that is saved leaves some CPU free for another task. So the change grows with what else the
//!   CPUs do: with the trains of above -19% without other load, -31% with 10%, -42% with 30%, -47% with 50%. Packets that come alone, 30 per second of each
//!   flow and no other load, give -62% with hardly a swap.
//! * What it costs: who is kept on a busy CPU waits there. The 99th percentile of latencies is two to three times that of the existing policy
//!   with the other load of above, and much more without.
//! * P3's 5% of CPU time do not appear: they would be 150 us for each migration that is avoided, and the model has 2 us.
//!
//! The example `follow-search` of this crate found these, and finds others.
mod agenda;
mod cpus;
mod draw;
mod experiment;
mod machine;
mod model;
mod outcome;
pub mod replay;
mod steering;
mod tally;
pub mod trace;

pub use self::{
    experiment::FollowSim,
    model::{BadModel, MOST_CPUS, MOST_FLOWS, Model, Policy, Steering},
    outcome::Outcome,
    tally::{MOST_SETTLING, Tally},
};
use self::{machine::Machine, trace::Wake};

/// Simulates `model` until so many packets have come, after a sixteenth as many that do not count.
///
/// # Errors
/// When the model is out of range.
pub fn simulate(model: &Model, packets: u64) -> Result<Outcome, BadModel> {
    let mut machine = Machine::new(model)?;
    machine.run(packets / 16, |_| ());
    machine.forget();
    machine.run(packets, |_| ());
    Ok(machine.outcome)
}

/// The same from the beginning, all of which counts; `observe` sees each wake-up, as a [`trace::Writer`] takes it.
///
/// # Errors
/// When the model is out of range.
pub fn record(
    model: &Model,
    packets: u64,
    observe: impl FnMut(&Wake),
) -> Result<Outcome, BadModel> {
    let mut machine = Machine::new(model)?;
    machine.run(packets, observe);
    Ok(machine.outcome)
}

#[cfg(test)]
mod tests;
