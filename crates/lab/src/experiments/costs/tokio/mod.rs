//! Tasks of tokio, on a runtime of one thread except for the items that use all CPUs.
//!
//! Each item uses the faster of the two runtimes with one thread: `current_thread` creates and
//! joins at about 0.8 times the cost of `multi_thread` with one worker. The latter yields at about
//! 0.9 times the cost of the former, and also notifies faster.
//!
//! The measurements are the asynchronous versions of the modules of the same names in the parent
//! module.

mod calls;
mod channel;
mod create;
mod crowd;
mod runtime;
mod sleep;
mod switch;

use std::sync::Arc;
use std::time::Duration;

use tokio::task;

use self::channel::{Bounded, Unbounded};
use self::runtime::{broken, clocked, run, thread, workers};
use self::switch::{ByMutex, ByNotify, BySemaphore};
use super::info;
use super::item::{CostMethod, Item};
use super::laps::{Laps, SELDOM};
use super::sleep::{PARKED, POLLING};
use super::turn::{Turn, YIELDS};
use crate::kit::{Effort, Failure, Sample, host};

pub(super) const METHOD: CostMethod = CostMethod::new(
    "tokio",
    &[&[
        Item::of("thread-info", |effort| run(thread(), local(effort))).with("of", "tls"),
        Item::of("thread-info", |effort| run(thread(), current(effort))).with("of", "current"),
        Item::of("mutex", |effort| run(thread(), calls::mutex(effort))),
        Item::of("mutex-lock", |effort| run(thread(), calls::mutex_lock(effort))),
        Item::of("mutex-unlock", |effort| run(thread(), calls::mutex_unlock(effort))),
        Item::of("semaphore", |effort| run(thread(), calls::semaphore(effort))),
        Item::of("switch-mutex", |effort| run(thread(), switch::switch::<ByMutex>(effort))),
        Item::of("switch-semaphore", |effort| run(thread(), switch::switch::<BySemaphore>(effort))),
        Item::of("switch-condvar", |effort| run(workers(1), switch::switch::<ByNotify>(effort))),
        Item::of("create", |effort| run(thread(), create::create(effort))),
        Item::of("join", |effort| run(thread(), create::join(effort))),
        Item::of("create-join", |effort| run(thread(), create::create_join(effort))),
        Item::of("fork-join", |effort| run(thread(), create::fork_join(effort))),
        Item::of("yield", |effort| run(workers(1), yield_pair(effort))),
        Item::of_many("mutex-contended", |threads, effort| {
            run(workers(host::cpus()), crowd::mutex(threads, effort))
        }),
        Item::of_many("rwlock-contended", |threads, effort| {
            run(workers(host::cpus()), crowd::rwlock(threads, effort))
        }),
        Item::of("channel", |effort| {
            run(workers(host::cpus()), channel::channel::<Bounded>(effort))
        })
        .with("kind", "bounded"),
        Item::of("channel", |effort| {
            run(workers(host::cpus()), channel::channel::<Unbounded>(effort))
        })
        .with("kind", "unbounded"),
        Item::of_sleeps(POLLING, |_| Ok(()), sleeps),
        Item::of_sleeps(PARKED, |_| Ok(()), sleeps),
    ]],
);

fn sleeps(length: Duration, timers: usize, effort: Effort) -> Result<Sample, Failure> {
    run(clocked(), sleep::lateness(length, timers, effort))
}

tokio::task_local! {
    static OWN: usize;
}

/// Measures reads of a task-local.
async fn local(effort: Effort) -> Result<Sample, Failure> {
    OWN.scope(info::MARK, async { info::ask(effort, || own() == info::MARK) }).await
}

/// Not inlined, as for kernel threads.
#[inline(never)]
fn own() -> usize {
    OWN.get()
}

/// Measures reads of the task's identifier.
async fn current(effort: Effort) -> Result<Sample, Failure> {
    let own = task::id();
    info::ask(effort, || task::id() == own)
}

async fn yield_pair(effort: Effort) -> Result<Sample, Failure> {
    let turn = Arc::new(Turn::default());
    let follower = task::spawn(follow(Arc::clone(&turn)));
    let timed = lead(&turn, effort).await;
    follower.await.map_err(broken)?;
    Ok(timed)
}

async fn lead(turn: &Turn, effort: Effort) -> Sample {
    let mut laps = Laps::new(effort, SELDOM);
    while laps.next_round() {
        turn.pass(Turn::FOLLOWER);
        while turn.owner() != Turn::LEADER {
            task::yield_now().await;
        }
    }
    let timed = laps.end(YIELDS);
    turn.pass(Turn::OVER);
    timed
}

async fn follow(turn: Arc<Turn>) {
    loop {
        match turn.owner() {
            Turn::OVER => return,
            Turn::FOLLOWER => turn.pass(Turn::LEADER),
            _ => {}
        }
        task::yield_now().await;
    }
}
