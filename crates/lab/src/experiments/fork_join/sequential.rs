//! The same work without forks.

use super::clock::WorkClock;
use super::work::{self, Forks, Work};
use crate::kit::Failure;

struct InTurn;

impl Forks for InTurn {
    fn join<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        other: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        (one(), other())
    }
}

pub(super) fn run(work: Work, _workers: usize, clock: &mut WorkClock) -> Result<(), Failure> {
    while clock.is_due(work, work::run::<InTurn>(work.task()))? {}
    Ok(())
}
