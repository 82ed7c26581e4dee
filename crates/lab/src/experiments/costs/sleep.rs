//! Lateness of sleepers: the time from the end of a sleep until its thread runs.
//!
//! All methods sleep for the same times, named after the state that they meet in Daiko. With
//! `state=polling` a sleep is so short that the agent of an idle worker polls until it ends; with
//! `state=parked` it is so long that the worker parks first.
//!
//! During the sleeps, `timers` other threads wait for a semaphore with timeouts of an hour and
//! more, no two until the same time. The permits come when the sleeps are over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use daiko_sys::clock;

use super::calls::check_count;
use super::laps::{ALWAYS, Laps};
use super::locks::TestedSemaphore;
use super::threads::Threads;
use crate::kit::{Effort, Failure, Reading, Sample, Spread, Unit};

/// Sleep of `state=polling`: shorter than the 50 µs for which an agent polls by default.
pub(super) const POLLING: (&str, Duration) = ("polling", Duration::from_micros(20));
/// Sleep of `state=parked`: a hundred times as long as those 50 µs.
pub(super) const PARKED: (&str, Duration) = ("parked", Duration::from_millis(5));

/// A method's way to sleep.
pub(super) trait Sleep: 'static {
    /// The semaphore that the other threads wait for.
    type Semaphore: TestedSemaphore;

    /// Sleeps for `length` from now, which is until `due` on the monotonic clock, in nanoseconds.
    fn sleep(length: Duration, due: u64);
}

/// Measures sleeps of `length` while `timers` other threads wait.
pub(super) fn lateness<T: Threads, S: Sleep>(
    length: Duration,
    timers: usize,
    effort: Effort,
) -> Result<Sample, Failure> {
    among::<T, S, _>(timers, || {
        let mut sleeps = Sleeps::new(length, effort);
        while let Some(due) = sleeps.next_due() {
            S::sleep(length, due);
            sleeps.ended(due, clock::monotonic_ns())?;
        }
        Ok(sleeps.end())
    })
}

/// Timeout of waiting thread `index`.
pub(super) fn at_most(index: usize) -> Duration {
    const HOUR: Duration = Duration::from_secs(3600);
    HOUR + Duration::from_millis(index as u64)
}

/// Sleeps in progress.
pub(super) struct Sleeps {
    laps: Laps,
    length: u64,
    /// Lateness of each sleep, in nanoseconds.
    late: Vec<f64>,
}

impl Sleeps {
    pub(super) fn new(length: Duration, effort: Effort) -> Self {
        let length = length.as_nanos() as u64;
        Self { laps: Laps::new(effort, ALWAYS), length, late: Vec::new() }
    }

    /// Returns the end of the next sleep, which begins now, or `None` after the last one.
    pub(super) fn next_due(&mut self) -> Option<u64> {
        self.laps.next_round().then(|| clock::monotonic_ns() + self.length)
    }

    /// Records a sleep until `due` that ended at `now`.
    pub(super) fn ended(&mut self, due: u64, now: u64) -> Result<(), Failure> {
        if now < due {
            let early = due - now;
            return Err(Failure::Broken(format!("a sleep ended {early} ns before its time")));
        }
        self.late.push((now - due) as f64);
        Ok(())
    }

    /// Ends the sample. The first sleep does not count. The value is the median, because a
    /// disturbance of the machine delays a few sleepers for very long.
    pub(super) fn end(mut self) -> Sample {
        let late = Spread::of(self.late.split_off(1)).expect("one that counts");
        let readings = vec![
            Reading::new(Unit::Nanoseconds, late.median),
            Reading::stat(Unit::Nanoseconds, "max", late.max),
        ];
        Sample { readings, ..self.laps.end(1) }
    }
}

/// The semaphore of the other threads, and the number of threads that wait.
struct CountedBell<S> {
    rings: S,
    waiting: AtomicUsize,
}

impl<S: TestedSemaphore> CountedBell<S> {
    /// Returns whether a permit came within `timeout`.
    fn wait(&self, timeout: Duration) -> bool {
        // Relaxed: the count publishes no other data.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.rings.acquire_within(timeout)
    }
}

/// Runs `body` while the other threads wait.
fn among<T: Threads, S: Sleep, R>(
    timers: usize,
    body: impl FnOnce() -> Result<R, Failure>,
) -> Result<R, Failure> {
    let bell =
        Arc::new(CountedBell { rings: S::Semaphore::holding(0), waiting: AtomicUsize::new(0) });
    let mut sleepers = Vec::with_capacity(timers);
    let result = gather::<T, S>(&bell, timers, &mut sleepers).and_then(|()| body());
    let begun = sleepers.len();
    sleepers.iter().for_each(|_| bell.rings.release());
    let mut heard = 0;
    for other in sleepers {
        heard += u64::from(T::join(other)?);
    }
    check_count("waits of an hour", heard, begun as u64)?;
    result
}

/// Creates the other threads, and returns when all of them wait.
fn gather<T: Threads, S: Sleep>(
    bell: &Arc<CountedBell<S::Semaphore>>,
    timers: usize,
    sleepers: &mut Vec<T::Handle<bool>>,
) -> Result<(), Failure> {
    for index in 0..timers {
        let bell = Arc::clone(bell);
        sleepers.push(T::spawn(index, timers, move || bell.wait(at_most(index)))?);
        // Lets the new thread wait at once. If all of them started waiting later, a spare worker
        // would help and take some of them.
        T::yield_now();
    }
    // Relaxed: see `wait`.
    while bell.waiting.load(Ordering::Relaxed) < timers {
        T::yield_now();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::costs::threads::KernelThreads;

    const EFFORT: Effort = Effort { rounds: 3, limit: Duration::from_secs(60) };

    fn slept(late: &[u64]) -> Result<Sample, Failure> {
        let mut sleeps = Sleeps::new(POLLING.1, EFFORT);
        for late in late {
            let due = sleeps.next_due().expect("there is time for more");
            sleeps.ended(due, due + late)?;
        }
        assert_eq!(sleeps.next_due(), None, "more than asked for");
        Ok(sleeps.end())
    }

    #[test]
    fn all_sleeps_but_the_first_count() {
        let sample = slept(&[900, 5, 100, 7]).expect("none is early");
        let values: Vec<f64> = sample.readings.iter().map(|reading| reading.value).collect();
        assert_eq!((sample.rounds, &values[..]), (3, &[7.0, 100.0][..]), "median and worst");
    }

    #[test]
    fn a_sleep_that_ends_early_is_a_fault() {
        let mut sleeps = Sleeps::new(POLLING.1, EFFORT);
        let due = sleeps.next_due().expect("the first");
        assert_eq!(sleeps.ended(due, due), Ok(()));
        let early = sleeps.ended(due, due - 2);
        assert_eq!(early, Err(Failure::Broken("a sleep ended 2 ns before its time".into())));
    }

    /// A semaphore that never blocks.
    struct Impatient;

    impl Sleep for Impatient {
        type Semaphore = Self;

        fn sleep(_: Duration, _: u64) {}
    }

    impl TestedSemaphore for Impatient {
        fn holding(_: u32) -> Self {
            Self
        }

        fn acquire(&self) {}

        fn try_acquire(&self) -> bool {
            false
        }

        fn acquire_within(&self, _: Duration) -> bool {
            false
        }

        fn release(&self) {}
    }

    #[test]
    fn sleeps_that_do_not_last_are_a_fault() {
        let failure = lateness::<KernelThreads, Impatient>(at_most(0), 0, EFFORT).unwrap_err();
        assert!(matches!(failure, Failure::Broken(_)), "{failure}");
    }

    #[test]
    fn threads_that_do_not_wait_are_missed() {
        let failure = among::<KernelThreads, Impatient, _>(3, || Ok(())).unwrap_err();
        assert!(failure.to_string().contains("waits of an hour"), "{failure}");
    }
}
