//! P4's protocol: all tasks are bound and prepared, start together, and the IO task of a pair ends with its CPU task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use crate::kit::{Failure, OrFailure, host};

/// What a task did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// Writes or operations of an IO task; how often a CPU task did its work.
    pub(super) count: u64,
    /// From the start of all to its end.
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

/// How much a CPU task does: its work so often, and on until the least time is over; less if the time is over before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) times: u64,
    pub(super) least: Duration,
    pub(super) limit: Duration,
}

impl Amount {
    /// Does `work`, in times since `start`; it fails at its first failure.
    pub(super) fn run(
        self,
        start: Instant,
        mut work: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(u64, Duration), Failure> {
        let mut count = 0;
        let is_done = |count: u64| {
            let elapsed = start.elapsed();
            count > 0 && (count >= self.times && elapsed >= self.least || elapsed >= self.limit)
        };
        while !is_done(count) {
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
    /// When the first of them has come through.
    begin: OnceLock<Instant>,
}

impl Start {
    pub(super) fn of(tasks: usize) -> Self {
        let (barrier, failed) = (Barrier::new(tasks), AtomicBool::new(false));
        Self { barrier, failed, begin: OnceLock::new() }
    }

    /// Waits for all; what was prepared, if all others are prepared too, and when all start: who shares a hardware thread may
    /// have to wait for it, which is a part of its time.
    pub(super) fn wait<T>(&self, prepared: Result<T, Failure>) -> Result<(T, Instant), Stopped> {
        if prepared.is_err() {
            // The barrier orders it before the loads of the others.
            self.failed.store(true, Ordering::Relaxed);
        }
        self.barrier.wait();
        let begin = *self.begin.get_or_init(Instant::now);
        let prepared = prepared?;
        if self.failed.load(Ordering::Relaxed) { Err(None) } else { Ok((prepared, begin)) }
    }
}

/// Why a task did nothing, or not all: its failure, or none if another task failed before the start.
pub(super) type Stopped = Option<Failure>;

/// What all did, or the first failure.
pub(super) fn all<T>(results: Vec<Result<T, Stopped>>) -> Result<Vec<T>, Failure> {
    let failed = results.iter().filter_map(|result| result.as_ref().err());
    if let Some(failure) = failed.flatten().next() {
        return Err(failure.clone());
    }
    let done = results.into_iter().collect::<Result<_, _>>();
    Ok(done.expect("whoever stopped the others has failed"))
}

/// Binds the calling thread, and what it starts from now on.
pub(super) fn bind(cpu: usize) -> Result<(), Failure> {
    host::bind(cpu).or_broken(format_args!("cannot bind a task to CPU {cpu}"))
}
