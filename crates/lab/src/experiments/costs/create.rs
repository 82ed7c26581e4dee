//! Costs of creating and joining threads that only return [`TOKEN`].
//!
//! | item | the timed part |
//! |---|---|
//! | `create-join` | a thread is created and joined, one after the other |
//! | `fork-join` | 10,000 are created, then all are joined |
//! | `create` | 100 are created; kernel threads may already run during that time |
//! | `join` | 100 are joined that have run |

use std::time::{Duration, Instant};

use super::calls::{check_count, counted};
use super::laps::{ALWAYS, Parts, SELDOM};
use crate::kit::{Effort, Failure, Sample};

/// Threads of a fork-join.
pub(super) const FORKED: usize = 10_000;
/// Threads of a batch, for timing the creation or the joining.
pub(super) const BATCH: usize = 100;
/// Name of the counted operation in errors.
const THREADS: &str = "threads";
/// Return value of every thread. The sum of the joined values tells how many threads ran.
pub(super) const TOKEN: u64 = 1;

/// Method-specific creation of threads that end with [`TOKEN`].
pub(super) trait Create: Sized {
    type Thread;

    fn new() -> Result<Self, Failure>;

    /// Creates thread `index` of `threads`.
    fn create(&self, index: usize, threads: usize) -> Result<Self::Thread, Failure>;

    /// Lets all `threads` run to their end.
    fn run(&self, threads: &[Self::Thread]);

    /// Joins a thread and returns its value.
    fn join(thread: Self::Thread) -> Result<u64, Failure>;
}

/// Measures creating and joining one thread at a time.
pub(super) fn create_join<C: Create>(effort: Effort) -> Result<Sample, Failure> {
    let creator = C::new()?;
    counted(effort, SELDOM, 1, THREADS, || C::join(creator.create(0, 1)?))
}

/// Measures creating [`FORKED`] threads and then joining all of them.
pub(super) fn fork_join<C: Create>(effort: Effort) -> Result<Sample, Failure> {
    let creator = C::new()?;
    let mut threads = Vec::with_capacity(FORKED);
    counted(effort, ALWAYS, FORKED as u64, THREADS, || {
        fork(&creator, &mut threads, FORKED)?;
        join_all::<C>(&mut threads)
    })
}

/// Measures the creation alone.
pub(super) fn create<C: Create>(effort: Effort) -> Result<Sample, Failure> {
    batch::<C>(effort, |create, _| create)
}

/// Measures the joining alone.
pub(super) fn join<C: Create>(effort: Effort) -> Result<Sample, Failure> {
    batch::<C>(effort, |_, join| join)
}

/// Creates and joins a batch in each round, and times the part that `choose` selects.
fn batch<C: Create>(
    effort: Effort,
    choose: fn(Duration, Duration) -> Duration,
) -> Result<Sample, Failure> {
    let creator = C::new()?;
    let mut threads = Vec::with_capacity(BATCH);
    let mut tokens = 0;
    let mut parts = Parts::new(effort);
    while parts.next_round() {
        let start = Instant::now();
        fork(&creator, &mut threads, BATCH)?;
        let create = start.elapsed();
        creator.run(&threads);
        let start = Instant::now();
        tokens += join_all::<C>(&mut threads)?;
        parts.add(choose(create, start.elapsed()));
    }
    ended(parts.end(BATCH as u64), tokens, BATCH)
}

fn fork<C: Create>(creator: &C, threads: &mut Vec<C::Thread>, count: usize) -> Result<(), Failure> {
    for index in 0..count {
        threads.push(creator.create(index, count)?);
    }
    Ok(())
}

fn join_all<C: Create>(threads: &mut Vec<C::Thread>) -> Result<u64, Failure> {
    threads.drain(..).try_fold(0, |tokens, thread| Ok(tokens + C::join(thread)?))
}

/// Checks that every thread of every round, `each` per round, ran to its end.
pub(super) fn ended(timed: Sample, tokens: u64, each: usize) -> Result<Sample, Failure> {
    check_count(THREADS, tokens, (timed.rounds + 1) * each as u64 * TOKEN)?;
    Ok(timed)
}

#[cfg(test)]
mod tests {
    use super::super::laps;
    use super::*;

    const EFFORT: Effort = Effort { rounds: 3, limit: Duration::from_secs(60) };

    /// A method in which one of every `EVERY` threads does not run.
    struct Forgetful<const EVERY: usize>;

    impl<const EVERY: usize> Create for Forgetful<EVERY> {
        type Thread = u64;

        fn new() -> Result<Self, Failure> {
            Ok(Self)
        }

        fn create(&self, index: usize, _: usize) -> Result<u64, Failure> {
            Ok(if index % EVERY == EVERY - 1 { 0 } else { TOKEN })
        }

        fn run(&self, _: &[u64]) {}

        fn join(token: u64) -> Result<u64, Failure> {
            Ok(token)
        }
    }

    type Body = fn(Effort) -> Result<Sample, Failure>;

    #[track_caller]
    fn check(threads: usize, whole: Body, forgetful: Body) {
        let timed = whole(EFFORT).expect("all have run");
        assert_eq!(laps::count(&timed), 3 * threads as u64);
        let failure = forgetful(EFFORT).unwrap_err();
        assert!(matches!(failure, Failure::Broken(_)), "{failure}");
    }

    #[test]
    fn threads_that_did_not_run_are_missed() {
        check(1, create_join::<Forgetful<2>>, create_join::<Forgetful<1>>);
        check(FORKED, fork_join::<Forgetful<{ FORKED + 1 }>>, fork_join::<Forgetful<FORKED>>);
        check(BATCH, create::<Forgetful<{ BATCH + 1 }>>, create::<Forgetful<BATCH>>);
        check(BATCH, join::<Forgetful<{ BATCH + 1 }>>, join::<Forgetful<BATCH>>);
    }
}
