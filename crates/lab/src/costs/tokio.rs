//! Tasks of tokio, each item on the runtime of one thread that is the faster
//! there: `current_thread` creates and joins at about 0.8 times the cost of
//! `multi_thread` with one worker, which yields at about 0.9 times that of the
//! other.

use std::sync::Arc;

use tokio::{
    runtime::Builder,
    task::{self, JoinError},
};

use super::{
    CREATE_JOIN, FORK_JOIN, FORKED, Item, Method, YIELD, YIELDS,
    laps::{ALWAYS, Laps, SELDOM, Timed, Turn},
};
use crate::{Failure, experiment::Effort};

pub(super) const METHOD: Method = Method {
    name: "tokio",
    items: &[
        Item {
            name: CREATE_JOIN,
            times: 1,
            first: 1000,
            run: |effort| run(Builder::new_current_thread(), create_join(effort)),
        },
        Item {
            name: FORK_JOIN,
            times: FORKED as u64,
            first: 1,
            run: |effort| run(Builder::new_current_thread(), fork_join(effort)),
        },
        Item {
            name: YIELD,
            times: YIELDS,
            first: 1000,
            run: |effort| run(Builder::new_multi_thread(), yield_pair(effort)),
        },
    ],
};

/// Runs `body` in a task.
fn run<F>(mut builder: Builder, body: F) -> Result<Timed, Failure>
where
    F: Future<Output = Result<Timed, JoinError>> + Send + 'static,
{
    let runtime = builder.worker_threads(1).build();
    let runtime = runtime
        .map_err(|error| Failure::Limit(format!("tokio's runtime did not start: {error}")))?;
    let timed = runtime.block_on(runtime.spawn(body)).and_then(|timed| timed);
    timed.map_err(|error| Failure::Broken(format!("tokio: {error}")))
}

async fn create_join(effort: Effort) -> Result<Timed, JoinError> {
    let mut laps = Laps::new(effort, SELDOM);
    while laps.another() {
        task::spawn(async {}).await?;
    }
    Ok(laps.end())
}

async fn fork_join(effort: Effort) -> Result<Timed, JoinError> {
    let mut tasks = Vec::with_capacity(FORKED);
    let mut laps = Laps::new(effort, ALWAYS);
    while laps.another() {
        tasks.extend((0..FORKED).map(|_| task::spawn(async {})));
        for task in tasks.drain(..) {
            task.await?;
        }
    }
    Ok(laps.end())
}

async fn yield_pair(effort: Effort) -> Result<Timed, JoinError> {
    let turn = Arc::new(Turn::default());
    let follower = task::spawn(follow(Arc::clone(&turn)));
    let timed = lead(&turn, effort).await;
    follower.await?;
    Ok(timed)
}

/// As [`Turn::lead`].
async fn lead(turn: &Turn, effort: Effort) -> Timed {
    let mut laps = Laps::new(effort, SELDOM);
    while laps.another() {
        turn.pass(Turn::FOLLOWER);
        while turn.owner() != Turn::LEADER {
            task::yield_now().await;
        }
    }
    let timed = laps.end();
    turn.pass(Turn::OVER);
    timed
}

/// As [`Turn::follow`].
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
