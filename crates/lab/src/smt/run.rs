//! P4's protocol: all tasks are bound and prepared, start together, and the IO task of a pair ends with its CPU task.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{Failure, host};

/// What a task did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// Writes or operations of an IO task; how often a CPU task did its work.
    pub(super) count: u64,
    /// From its start to its end.
    pub(super) elapsed: Duration,
    /// How long it had a CPU.
    pub(super) cpu: Duration,
}

/// What the tasks of a pair did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PairDone {
    pub(super) io: Done,
    pub(super) cpu: Done,
}

/// How much a CPU task does: its work so often, less if the time is over before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) times: u64,
    pub(super) limit: Duration,
}

impl Amount {
    /// Does `work`; it fails at its first failure.
    pub(super) fn run(
        self,
        mut work: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(u64, Duration), Failure> {
        let start = Instant::now();
        let mut count = 0;
        while count < self.times.max(1) && (count == 0 || start.elapsed() < self.limit) {
            work()?;
            count += 1;
        }
        Ok((count, start.elapsed()))
    }
}

/// Where all tasks meet before they start.
pub(super) struct Start {
    barrier: Barrier,
    failed: AtomicBool,
}

impl Start {
    pub(super) fn of(tasks: usize) -> Self {
        Self { barrier: Barrier::new(tasks), failed: AtomicBool::new(false) }
    }

    /// Waits for all; what was prepared, if all others are prepared too.
    pub(super) fn wait<T>(&self, prepared: Result<T, Failure>) -> Result<T, Stopped> {
        if prepared.is_err() {
            // The barrier orders it before the loads of the others.
            self.failed.store(true, Ordering::Relaxed);
        }
        self.barrier.wait();
        let prepared = prepared.map_err(Stopped::Failed)?;
        if self.failed.load(Ordering::Relaxed) { Err(Stopped::ByOther) } else { Ok(prepared) }
    }
}

/// Why a task did nothing, or not all.
#[derive(Debug)]
pub(super) enum Stopped {
    Failed(Failure),
    /// Another task failed before the start.
    ByOther,
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What all did, or the first failure.
pub(super) fn all<T>(results: Vec<Result<T, Stopped>>) -> Result<Vec<T>, Failure> {
    let (mut done, mut other) = (Vec::new(), false);
    for result in results {
        match result {
            Ok(one) => done.push(one),
            Err(Stopped::Failed(failure)) => return Err(failure),
            Err(Stopped::ByOther) => other = true,
        }
    }
    assert!(!other, "whoever stopped the others has failed");
    Ok(done)
}

/// Binds the calling thread, and what it starts from now on.
pub(super) fn bind(cpu: usize) -> Result<(), Failure> {
    let unbound = |error| Failure::Broken(format!("cannot bind a task to CPU {cpu}: {error}"));
    host::bind(cpu).map_err(unbound)
}
