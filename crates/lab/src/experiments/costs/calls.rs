//! Costs of calls to locks that no other thread wants.
//!
//! `mutex-lock` and `mutex-unlock` are timed over an array of mutexes: all are locked, then all are
//! unlocked. Each mutex has a cache line of its own, and the whole array fits into the first-level
//! cache. The guards are kept in between, which adds one store per lock and one load per unlock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::laps::{Laps, Parts, SELDOM};
use super::locks::{TestedMutex, TestedSemaphore};
use crate::kit::{Effort, Failure, Sample};

/// Pairs of calls in a round. With this many, the cost of counting rounds is negligible.
pub(super) const PAIRS: u64 = 64;
/// Mutexes of an array. With this many, two clock readings are negligible.
pub(super) const ARRAY: usize = 256;

/// A mutex in a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct PaddedMutex<M>(pub(super) M);

/// Measures pairs of lock and unlock.
pub(super) fn mutex<M: TestedMutex + Default>(effort: Effort) -> Result<Sample, Failure> {
    let mutex = M::default();
    let mutex = black_box(&mutex);
    let mut laps = Laps::new(effort, SELDOM);
    while laps.next_round() {
        for _ in 0..PAIRS {
            *mutex.lock() += 1;
        }
    }
    let timed = laps.end(PAIRS);
    check_excludes(mutex)?;
    check_count("locks", *mutex.lock(), (timed.rounds + 1) * PAIRS)?;
    Ok(timed)
}

/// Measures the locking alone.
pub(super) fn mutex_lock<M: TestedMutex + Default>(effort: Effort) -> Result<Sample, Failure> {
    lock_each(&array::<M>(), effort)
}

/// Measures the unlocking alone.
pub(super) fn mutex_unlock<M: TestedMutex + Default>(effort: Effort) -> Result<Sample, Failure> {
    unlock_each(&array::<M>(), effort)
}

fn array<M: TestedMutex + Default>() -> Vec<PaddedMutex<M>> {
    (0..ARRAY).map(|_| PaddedMutex::default()).collect()
}

/// Measures the locking of `mutexes` alone.
pub(super) fn lock_each<M: TestedMutex>(
    mutexes: &[PaddedMutex<M>],
    effort: Effort,
) -> Result<Sample, Failure> {
    each(mutexes, effort, |lock, _| lock)
}

/// Measures the unlocking of `mutexes` alone.
pub(super) fn unlock_each<M: TestedMutex>(
    mutexes: &[PaddedMutex<M>],
    effort: Effort,
) -> Result<Sample, Failure> {
    each(mutexes, effort, |_, unlock| unlock)
}

/// Locks and unlocks all mutexes in each round, and times the part that `choose` selects.
fn each<M: TestedMutex>(
    mutexes: &[PaddedMutex<M>],
    effort: Effort,
    choose: fn(Duration, Duration) -> Duration,
) -> Result<Sample, Failure> {
    let mut guards = Vec::with_capacity(mutexes.len());
    let mut parts = Parts::new(effort);
    while parts.next_round() {
        let start = Instant::now();
        guards.extend(mutexes.iter().map(|line| line.0.lock()));
        let lock = start.elapsed();
        guards.iter_mut().for_each(|guard| **guard += 1);
        let start = Instant::now();
        guards.clear();
        parts.add(choose(lock, start.elapsed()));
    }
    let timed = parts.end(mutexes.len() as u64);
    for PaddedMutex(mutex) in mutexes {
        check_excludes(mutex)?;
        check_count("locks", *mutex.lock(), timed.rounds + 1)?;
    }
    Ok(timed)
}

/// Measures pairs of acquire and release.
pub(super) fn semaphore<S: TestedSemaphore>(effort: Effort) -> Result<Sample, Failure> {
    let semaphore = S::holding(1);
    let semaphore = black_box(&semaphore);
    let mut laps = Laps::new(effort, SELDOM);
    while laps.next_round() {
        for _ in 0..PAIRS {
            semaphore.acquire();
            semaphore.release();
        }
    }
    let timed = laps.end(PAIRS);
    check_permit(|| semaphore.try_acquire())?;
    Ok(timed)
}

/// Checks that the mutex has at most one holder and is free without one.
fn check_excludes<M: TestedMutex>(mutex: &M) -> Result<(), Failure> {
    let held = mutex.lock();
    let second = mutex.try_lock().is_some();
    drop(held);
    check_lock(second, mutex.try_lock().is_some())
}

/// Fails if a lock admitted a `second` holder, or was not `free` afterwards.
pub(super) fn check_lock(second: bool, free: bool) -> Result<(), Failure> {
    match (second, free) {
        (true, _) => Err(Failure::Broken("a mutex had two holders".into())),
        (_, false) => Err(Failure::Broken("a mutex that was unlocked is still locked".into())),
        (false, true) => Ok(()),
    }
}

/// Checks that as many permits were released as acquired: exactly one permit is left.
pub(super) fn check_permit(mut try_acquire: impl FnMut() -> bool) -> Result<(), Failure> {
    let left = (0..2).filter(|_| try_acquire()).count();
    if left == 1 {
        return Ok(());
    }
    Err(Failure::Broken(format!("a semaphore of one permit has {left} or more at the end")))
}

/// Runs `round` repeatedly. Each run performs the operation `times` times and returns how many of
/// them it counted. Fails, naming the operation, if the totals differ.
pub(super) fn counted(
    effort: Effort,
    look: u64,
    times: u64,
    operation: &str,
    mut round: impl FnMut() -> Result<u64, Failure>,
) -> Result<Sample, Failure> {
    let mut counted = 0;
    let mut laps = Laps::new(effort, look);
    while laps.next_round() {
        counted += round()?;
    }
    let timed = laps.end(times);
    check_count(operation, counted, (timed.rounds + 1) * times)?;
    Ok(timed)
}

/// Fails, naming the operation, unless `counted` equals `done`.
pub(super) fn check_count(operation: &str, counted: u64, done: u64) -> Result<(), Failure> {
    if counted == done {
        return Ok(());
    }
    Err(Failure::Broken(format!("{done} {operation} were done, {counted} were counted")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::costs::locks::testing::Open;

    const EFFORT: Effort = Effort { rounds: 3, limit: Duration::from_secs(60) };

    fn fault(result: Result<Sample, Failure>) -> String {
        match result {
            Err(Failure::Broken(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mutex_with_two_holders_is_found() {
        for measure in
            [mutex::<Open<false>>, mutex_lock::<Open<false>>, mutex_unlock::<Open<false>>]
        {
            assert_eq!(fault(measure(EFFORT)), "a mutex had two holders");
        }
    }

    #[test]
    fn a_mutex_that_stays_locked_is_found() {
        assert!(check_lock(false, true).is_ok());
        assert!(check_lock(false, false).is_err());
    }

    #[test]
    fn a_semaphore_without_end_is_found() {
        assert!(fault(semaphore::<Open<false>>(EFFORT)).contains("has 2 or more"));
    }

    #[test]
    fn a_permit_that_is_lost_is_missed() {
        assert!(check_permit(|| false).is_err());
    }

    #[test]
    fn counted_operations_equal_done_operations() {
        assert!(check_count("locks", 3, 3).is_ok());
        assert!(check_count("locks", 2, 3).is_err());
    }
}
