//! Costs of creating and joining tasks.

use std::time::{Duration, Instant};

use tokio::task::{self, JoinHandle};

use super::runtime::broken;
use crate::experiments::costs::create::{BATCH, FORKED, TOKEN, ended};
use crate::experiments::costs::laps::{ALWAYS, Laps, Parts, SELDOM};
use crate::kit::{Effort, Failure, Sample};

pub(super) async fn create_join(effort: Effort) -> Result<Sample, Failure> {
    let mut tokens = 0;
    let mut laps = Laps::new(effort, SELDOM);
    while laps.next_round() {
        tokens += task::spawn(token()).await.map_err(broken)?;
    }
    ended(laps.end(1), tokens, 1)
}

pub(super) async fn fork_join(effort: Effort) -> Result<Sample, Failure> {
    let mut tasks = Vec::with_capacity(FORKED);
    let mut tokens = 0;
    let mut laps = Laps::new(effort, ALWAYS);
    while laps.next_round() {
        tasks.extend((0..FORKED).map(|_| task::spawn(token())));
        tokens += join_all(&mut tasks).await?;
    }
    ended(laps.end(FORKED as u64), tokens, FORKED)
}

pub(super) async fn create(effort: Effort) -> Result<Sample, Failure> {
    batch(effort, |create, _| create).await
}

pub(super) async fn join(effort: Effort) -> Result<Sample, Failure> {
    batch(effort, |_, join| join).await
}

async fn batch(
    effort: Effort,
    choose: fn(Duration, Duration) -> Duration,
) -> Result<Sample, Failure> {
    let mut tasks = Vec::with_capacity(BATCH);
    let mut tokens = 0;
    let mut parts = Parts::new(effort);
    while parts.next_round() {
        let start = Instant::now();
        tasks.extend((0..BATCH).map(|_| task::spawn(token())));
        let create = start.elapsed();
        while !tasks.iter().all(JoinHandle::is_finished) {
            task::yield_now().await;
        }
        let start = Instant::now();
        tokens += join_all(&mut tasks).await?;
        parts.add(choose(create, start.elapsed()));
    }
    ended(parts.end(BATCH as u64), tokens, BATCH)
}

async fn join_all(tasks: &mut Vec<JoinHandle<u64>>) -> Result<u64, Failure> {
    let mut tokens = 0;
    for task in tasks.drain(..) {
        tokens += task.await.map_err(broken)?;
    }
    Ok(tokens)
}

async fn token() -> u64 {
    TOKEN
}
