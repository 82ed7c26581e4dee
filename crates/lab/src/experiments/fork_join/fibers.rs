//! Fibers: `daiko::spawn`, and `join` of its handle; and `daiko::join`.

use daiko::Runtime;

use super::clock::WorkClock;
use super::work::{self, Forks, Work};
use crate::kit::{Failure, FiberKind};

/// One branch in a fiber of its own.
pub(super) struct Spawned;

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

/// One branch in a fiber that borrows the thread-locals of its worker.
pub(super) struct SpawnedBorrowed;

impl Forks for SpawnedBorrowed {
    fn join<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        other: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        // SAFETY: the work uses no thread-local but those of the runtime and the allocator.
        let one = unsafe { FiberKind::Borrowed.builder() }.spawn(one).expect("memory for a fiber");
        let other = other();
        (one.join().expect("the branch returns"), other)
    }
}

/// Both branches as closures.
pub(super) struct Joined;

impl Forks for Joined {
    fn join<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        other: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        daiko::join(one, other)
    }
}

pub(super) fn run<F: Forks>(
    work: Work,
    workers: usize,
    clock: &mut WorkClock,
) -> Result<(), Failure> {
    let runtime = Runtime::builder().workers(workers).bind(true).build()?;
    let task = work.task();
    while clock.is_due(work, runtime.spawn(move || work::run::<F>(task)).join()?)? {}
    Ok(())
}
