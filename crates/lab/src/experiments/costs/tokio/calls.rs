//! Costs of calls to locks that no other task wants. An awaited call mostly completes at once; now
//! and then tokio lets the task yield nevertheless.

use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore};

use crate::experiments::costs::calls::{
    ARRAY, PAIRS, PaddedMutex, check_count, check_lock, check_permit,
};
use crate::experiments::costs::laps::{Laps, Parts, SELDOM};
use crate::kit::{Effort, Failure, Sample};

pub(super) async fn mutex(effort: Effort) -> Result<Sample, Failure> {
    let mutex = Mutex::new(0);
    let mut laps = Laps::new(effort, SELDOM);
    while laps.next_round() {
        for _ in 0..PAIRS {
            *mutex.lock().await += 1;
        }
    }
    let timed = laps.end(PAIRS);
    check(mutex, (timed.rounds + 1) * PAIRS)?;
    Ok(timed)
}

pub(super) async fn mutex_lock(effort: Effort) -> Result<Sample, Failure> {
    array(effort, |lock, _| lock).await
}

pub(super) async fn mutex_unlock(effort: Effort) -> Result<Sample, Failure> {
    array(effort, |_, unlock| unlock).await
}

async fn array(
    effort: Effort,
    choose: fn(Duration, Duration) -> Duration,
) -> Result<Sample, Failure> {
    let mutexes: Vec<PaddedMutex<Mutex<u64>>> =
        (0..ARRAY).map(|_| PaddedMutex::default()).collect();
    let mut guards = Vec::with_capacity(ARRAY);
    let mut parts = Parts::new(effort);
    while parts.next_round() {
        let start = Instant::now();
        for PaddedMutex(mutex) in &mutexes {
            guards.push(mutex.lock().await);
        }
        let lock = start.elapsed();
        guards.iter_mut().for_each(|guard| **guard += 1);
        let start = Instant::now();
        guards.clear();
        parts.add(choose(lock, start.elapsed()));
    }
    let timed = parts.end(ARRAY as u64);
    drop(guards);
    mutexes.into_iter().try_for_each(|PaddedMutex(mutex)| check(mutex, timed.rounds + 1))?;
    Ok(timed)
}

pub(super) async fn semaphore(effort: Effort) -> Result<Sample, Failure> {
    let semaphore = Semaphore::new(1);
    let closed = |_| Failure::Broken("tokio's semaphore is closed".into());
    let mut laps = Laps::new(effort, SELDOM);
    while laps.next_round() {
        for _ in 0..PAIRS {
            drop(semaphore.acquire().await.map_err(closed)?);
        }
    }
    let timed = laps.end(PAIRS);
    check_permit(|| semaphore.try_acquire().map(|permit| permit.forget()).is_ok())?;
    Ok(timed)
}

/// Checks that the mutex excludes and was locked `should` times.
fn check(mutex: Mutex<u64>, should: u64) -> Result<(), Failure> {
    let held = mutex.try_lock();
    let second = held.is_ok() && mutex.try_lock().is_ok();
    drop(held);
    check_lock(second, mutex.try_lock().is_ok())?;
    check_count("locks", mutex.into_inner(), should)
}
