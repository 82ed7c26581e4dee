//! Fibers: `daiko::spawn`, and `join` of its handle.

use daiko::Runtime;

use super::clock::WorkClock;
use super::work::{self, Forks, Work};
use crate::kit::Failure;

struct Spawned;

impl Forks for Spawned {
    fn join<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        other: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        let one = daiko::spawn(one);
        let other = other();
        (one.join().expect("the branch returns"), other)
    }
}

pub(super) fn run(work: Work, workers: usize, clock: &mut WorkClock) -> Result<(), Failure> {
    let runtime = Runtime::builder().workers(workers).bind(true).build()?;
    let task = work.task();
    while clock.is_due(work, runtime.spawn(move || work::run::<Spawned>(task)).join()?)? {}
    Ok(())
}
