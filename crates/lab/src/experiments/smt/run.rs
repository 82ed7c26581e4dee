//! P4's protocol: all tasks are bound and prepared and start together, and the IO task of a pair
//! ends with its CPU task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use crate::kit::{Failure, OrFailure, host};

/// Measurement of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// Number of writes or operations of an IO task; number of runs of a CPU task's work.
    pub(super) count: u64,
    /// Time from the common start to the task's end.
    pub(super) elapsed: Duration,
    /// CPU time.
    pub(super) cpu: Duration,
}

/// Measurements of the tasks of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PairDone {
    pub(super) io: Done,
    pub(super) cpu: Done,
}

/// Amount of a CPU task's work: `times` runs, and further runs until `least` is over. The task ends
/// early at `limit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) times: u64,
    pub(super) least: Duration,
    pub(super) limit: Duration,
}

impl Amount {
    /// Runs `work`, with times counted from `start`. Returns the first failure.
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

/// The point where all tasks meet before they start.
pub(super) struct StartGate {
    barrier: Barrier,
    failed: AtomicBool,
    /// Time at which the first task passed.
    begin: OnceLock<Instant>,
}

impl StartGate {
    pub(super) fn of(tasks: usize) -> Self {
        let (barrier, failed) = (Barrier::new(tasks), AtomicBool::new(false));
        Self { barrier, failed, begin: OnceLock::new() }
    }

    /// Waits for all tasks. Returns the prepared value and the common start time if all tasks are
    /// prepared. A task that shares a hardware thread may have to wait for it, which is a part of
    /// its time.
    pub(super) fn wait<T>(&self, prepared: Result<T, Failure>) -> Result<(T, Instant), Stopped> {
        if prepared.is_err() {
            // Relaxed: the barrier orders it before the loads of the other tasks.
            self.failed.store(true, Ordering::Relaxed);
        }
        self.barrier.wait();
        let begin = *self.begin.get_or_init(Instant::now);
        let prepared = prepared?;
        if self.failed.load(Ordering::Relaxed) { Err(None) } else { Ok((prepared, begin)) }
    }
}

/// The reason why a task stopped early: its failure, or none if another task failed before the
/// start.
pub(super) type Stopped = Option<Failure>;

/// Returns the results of all tasks, or the first failure.
pub(super) fn all<T>(results: Vec<Result<T, Stopped>>) -> Result<Vec<T>, Failure> {
    let failed = results.iter().filter_map(|result| result.as_ref().err());
    if let Some(failure) = failed.flatten().next() {
        return Err(failure.clone());
    }
    let done = results.into_iter().collect::<Result<_, _>>();
    Ok(done.expect("a task that stops the other tasks has failed"))
}

/// Binds the calling thread, and the threads and processes that it starts from now on.
pub(super) fn bind(cpu: usize) -> Result<(), Failure> {
    host::bind(cpu).or_broken(format_args!("cannot bind a task to CPU {cpu}"))
}
