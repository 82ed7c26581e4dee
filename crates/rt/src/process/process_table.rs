//! How the workers of a runtime have come up, for all its processes.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use daiko_sys::Scope;
use daiko_sys::lock::Tally;

use crate::atomic::{AtomicI32, AtomicU32, Ordering};
use crate::worker::Unclear;

/// The process table: how the workers have come up, and the loss of a worker. In the segment.
pub(crate) struct ProcessTable {
    /// Number of workers that have come up. Each worker adds itself once.
    pub(crate) up: Tally,
    /// Number of workers that the launcher waits for at the end. Only the launcher.
    pub(crate) worker_processes: AtomicU32,
    /// The error of a worker that could not come up; 0: none, or unknown. Written by the worker, or
    /// the zygote.
    pub(super) errno: AtomicI32,
    /// Index + 1 of the worker that was lost and has no successor; 0: none. Written by the zygote.
    lost: AtomicU32,
    /// The exit status of its process. Written by the zygote, before `lost`.
    end: AtomicI32,
    /// The reason why it has none: an `Unclear`. Written by the zygote, before `lost`.
    unclear: AtomicU32,
    /// The reason why it was not traced, as an errno; 0: it was. Written by the zygote, before
    /// `lost`.
    refused: AtomicI32,
    /// Number of fibers that have ended with their workers. Written by the successors.
    fibers: AtomicU32,
}

impl ProcessTable {
    pub(crate) fn new(scope: Scope) -> Self {
        let [errno, end, refused] = std::array::from_fn(|_| AtomicI32::new(0));
        let [worker_processes, lost, unclear, fibers] = std::array::from_fn(|_| AtomicU32::new(0));
        ProcessTable {
            up: Tally::new(scope),
            worker_processes,
            errno,
            lost,
            end,
            unclear,
            refused,
            fibers,
        }
    }

    pub(super) fn fail(&self, error: &io::Error) {
        self.errno.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
    }

    /// Counts a fiber that has ended with its worker.
    pub(crate) fn lose_fiber(&self) {
        self.fibers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fibers_lost(&self) -> usize {
        self.fibers.load(Ordering::Relaxed) as usize
    }

    /// Records that `worker` has no successor. `refused` is the reason why it was not traced, if it
    /// was not.
    pub(super) fn lose(&self, worker: u32, end: ExitStatus, why: Unclear, refused: Option<i32>) {
        self.end.store(end.into_raw(), Ordering::Relaxed);
        self.unclear.store(why.0, Ordering::Relaxed);
        self.refused.store(refused.unwrap_or(0), Ordering::Relaxed);
        // Release: pairs with the Acquire in `loss`.
        self.lost.store(worker + 1, Ordering::Release);
    }

    /// Returns the worker that was lost, and how its process ended.
    pub(super) fn lost(&self) -> Option<(u32, ExitStatus)> {
        // Acquire: pairs with the Release in `lose`.
        let worker = self.lost.load(Ordering::Acquire).checked_sub(1)?;
        Some((worker, ExitStatus::from_raw(self.end.load(Ordering::Relaxed))))
    }

    /// Describes the loss of a worker: which, how, and why no successor replaced it.
    pub(super) fn loss(&self) -> Option<String> {
        let (worker, end) = self.lost()?;
        let why = Unclear(self.unclear.load(Ordering::Relaxed)).text();
        let untraced = match self.refused.load(Ordering::Relaxed) {
            0 => String::new(),
            errno => format!(" (not traced: {})", io::Error::from_raw_os_error(errno)),
        };
        Some(format!("worker process {worker} has ended ({end}) and {why}{untraced}"))
    }
}
