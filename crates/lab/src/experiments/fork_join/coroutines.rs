//! Coroutines of may: `go!`, and `join` of its handle.

use super::clock::WorkClock;
use super::work::{self, Forks, Work};
use crate::kit::{Failure, coroutines};

/// One branch in a coroutine of its own.
struct Started;

impl Forks for Started {
    fn join<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        other: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        let one = may::go!(one);
        let other = other();
        (coroutines::join_or_unwind(one), other)
    }
}

pub(super) fn run(work: Work, workers: usize, clock: &mut WorkClock) -> Result<(), Failure> {
    // Coroutines start in the order of their forks, so a large part of them exists at once. Each
    // stack beyond those that are kept costs three system calls.
    coroutines::configure(workers, Some(coroutines::most().min(work.forks())));
    let task = work.task();
    while clock.is_due(work, coroutines::run(move || Ok(work::run::<Started>(task)))?)? {}
    Ok(())
}
