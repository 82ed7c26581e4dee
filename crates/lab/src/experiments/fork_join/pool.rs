//! `rayon::join` in a pool of its own.

use super::clock::WorkClock;
use super::work::{self, Forks, Work};
use crate::kit::{Failure, OrFailure};

struct Joined;

impl Forks for Joined {
    fn join<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        other: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        rayon::join(one, other)
    }
}

pub(super) fn run(work: Work, workers: usize, clock: &mut WorkClock) -> Result<(), Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
    let pool = pool.or_limit("rayon's pool did not start")?;
    let task = work.task();
    while clock.is_due(work, pool.install(|| work::run::<Joined>(task)))? {}
    Ok(())
}
