//! Creating and joining threads that do nothing but give [`TOKEN`].
//!
//! | item | what is timed |
//! |---|---|
//! | `create-join` | a thread is created and joined, one after the other |
//! | `fork-join` | 10,000 are created, then all are joined |
//! | `create` | 100 are created; on the kernel's threads some run meanwhile |
//! | `join` | 100 are joined that have run |

use std::time::{Duration, Instant};

use super::{
    calls::check_count,
    laps::{ALWAYS, Laps, Parts, SELDOM},
};
use crate::kit::{Effort, Failure, Sample};

/// Threads of a fork-join.
pub(super) const FORKED: usize = 10_000;
/// Threads of a batch, of which creating or joining is timed.
pub(super) const BATCH: usize = 100;
/// What every thread gives to who joins it: the sum tells how many have run.
pub(super) const TOKEN: u64 = 1;

/// How a method creates threads that end with [`TOKEN`].
pub(super) trait Create {
    type Thread;

    /// Creates thread `index` of `threads`.
    fn create(&self, index: usize, threads: usize) -> Result<Self::Thread, Failure>;

    /// Lets all `threads` run.
    fn run(&self, threads: &[Self::Thread]);

    /// What it gave.
    fn join(thread: Self::Thread) -> Result<u64, Failure>;
}

/// One at a time.
pub(super) fn create_join<C: Create>(creator: &C, effort: Effort) -> Result<Sample, Failure> {
    let mut tokens = 0;
    let mut laps = Laps::new(effort, SELDOM);
    while laps.another() {
        tokens += C::join(creator.create(0, 1)?)?;
    }
    ended(laps.end(1), tokens, 1)
}

/// All [`FORKED`] at a time.
pub(super) fn fork_join<C: Create>(creator: &C, effort: Effort) -> Result<Sample, Failure> {
    let mut threads = Vec::with_capacity(FORKED);
    let mut tokens = 0;
    let mut laps = Laps::new(effort, ALWAYS);
    while laps.another() {
        fork(creator, &mut threads, FORKED)?;
        tokens += join_all::<C>(&mut threads)?;
    }
    ended(laps.end(FORKED as u64), tokens, FORKED)
}

/// Create alone.
pub(super) fn create<C: Create>(creator: &C, effort: Effort) -> Result<Sample, Failure> {
    batch(creator, effort, |create, _| create)
}

/// Join alone.
pub(super) fn join<C: Create>(creator: &C, effort: Effort) -> Result<Sample, Failure> {
    batch(creator, effort, |_, join| join)
}

/// Times the part that `choose` takes, of creating a batch and joining it.
fn batch<C: Create>(
    creator: &C,
    effort: Effort,
    choose: fn(Duration, Duration) -> Duration,
) -> Result<Sample, Failure> {
    let mut threads = Vec::with_capacity(BATCH);
    let mut tokens = 0;
    let mut parts = Parts::new(effort);
    while parts.another() {
        let start = Instant::now();
        fork(creator, &mut threads, BATCH)?;
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

/// Whether every thread, `each` to a round, ran to its end.
pub(super) fn ended(timed: Sample, tokens: u64, each: usize) -> Result<Sample, Failure> {
    check_count("threads", tokens, (timed.rounds + 1) * each as u64 * TOKEN)?;
    Ok(timed)
}

#[cfg(test)]
mod tests {
    use super::{super::laps, *};

    const EFFORT: Effort = Effort { rounds: 3, limit: Duration::from_secs(60) };

    /// Every so many threads one does not run.
    struct Forgetful(usize);

    impl Create for Forgetful {
        type Thread = u64;

        fn create(&self, index: usize, _: usize) -> Result<u64, Failure> {
            Ok(if index % self.0 == self.0 - 1 { 0 } else { TOKEN })
        }

        fn run(&self, _: &[u64]) {}

        fn join(token: u64) -> Result<u64, Failure> {
            Ok(token)
        }
    }

    type Measure = fn(&Forgetful, Effort) -> Result<Sample, Failure>;

    #[test]
    fn threads_that_did_not_run_are_missed() {
        let all: [(Measure, usize); 4] =
            [(create_join, 1), (fork_join, FORKED), (create, BATCH), (join, BATCH)];
        for (measure, threads) in all {
            let timed = measure(&Forgetful(threads + 1), EFFORT).expect("all have run");
            assert_eq!(laps::count(&timed), 3 * threads as u64);
            let failure = measure(&Forgetful(threads), EFFORT).unwrap_err();
            assert!(matches!(failure, Failure::Broken(_)), "{failure}");
        }
    }
}
