//! Fibers of a runtime with one worker, created by a fiber.

use std::sync::Arc;

use daiko::{Builder, JoinError, Runtime, SpawnError};

use super::{
    CREATE_JOIN, FORK_JOIN, FORKED, Item, Method, YIELD, YIELDS,
    laps::{ALWAYS, Laps, SELDOM, Timed, Turn},
};
use crate::{Failure, experiment::Effort};

pub(super) const METHOD: Method = Method {
    name: "daiko",
    items: &[
        Item { name: CREATE_JOIN, times: 1, first: 1000, run: |effort| run(create_join, effort) },
        Item {
            name: FORK_JOIN,
            times: FORKED as u64,
            first: 1,
            run: |effort| run(fork_join, effort),
        },
        Item { name: YIELD, times: YIELDS, first: 1000, run: |effort| run(yield_pair, effort) },
    ],
};

type Body = fn(Effort) -> Result<Timed, Failure>;

/// Runs `body` in a fiber.
fn run(body: Body, effort: Effort) -> Result<Timed, Failure> {
    let runtime = Runtime::builder().workers(1).build();
    let runtime = runtime.map_err(|error| Failure::Limit(error.to_string()))?;
    runtime.run(move || body(effort))
}

fn create_join(effort: Effort) -> Result<Timed, Failure> {
    let mut laps = Laps::new(effort, SELDOM);
    while laps.another() {
        let fiber = Builder::new().spawn(|| ()).map_err(refused)?;
        fiber.join().map_err(broken)?;
    }
    Ok(laps.end())
}

fn fork_join(effort: Effort) -> Result<Timed, Failure> {
    let mut fibers = Vec::with_capacity(FORKED);
    let mut laps = Laps::new(effort, ALWAYS);
    while laps.another() {
        for _ in 0..FORKED {
            fibers.push(Builder::new().spawn(|| ()).map_err(refused)?);
        }
        for fiber in fibers.drain(..) {
            fiber.join().map_err(broken)?;
        }
    }
    Ok(laps.end())
}

/// The two yield in places of their own, as fibers do: passed by name, both would share one shim.
#[expect(clippy::redundant_closure, reason = "what is called by name is not inlined")]
fn yield_pair(effort: Effort) -> Result<Timed, Failure> {
    let turn = Arc::new(Turn::default());
    let other = Arc::clone(&turn);
    let follower =
        Builder::new().spawn(move || other.follow(|| daiko::yield_now())).map_err(refused)?;
    let timed = turn.lead(effort, || daiko::yield_now());
    follower.join().map_err(broken)?;
    Ok(timed)
}

fn refused(error: SpawnError) -> Failure {
    Failure::Limit(error.to_string())
}

fn broken(error: JoinError) -> Failure {
    Failure::Broken(format!("daiko: {error}"))
}
