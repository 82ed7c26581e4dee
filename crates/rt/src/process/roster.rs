//! How the workers of a runtime have come up, for all its processes.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use daiko_sys::Scope;
use daiko_sys::lock::Tally;

use crate::worker::Unclear;

/// How the workers have come up, and which was lost. In the segment.
pub(crate) struct Roster {
    /// Workers that have come up. Each, once.
    pub(crate) up: Tally,
    /// Workers that the maker waits for at the end. The maker.
    pub(crate) crew: AtomicU32,
    /// Why one could not; 0: none, or nobody knows. The worker, or the zygote.
    pub(super) errno: AtomicI32,
    /// The worker that was lost and has no successor, counted from 1; 0: none. The zygote.
    lost: AtomicU32,
    /// How it ended. The zygote, before `lost`.
    end: AtomicI32,
    /// Why it has none: an `Unclear`. The zygote, before `lost`.
    unclear: AtomicU32,
    /// Why it was not traced, as an errno; 0: it was. The zygote, before `lost`.
    refused: AtomicI32,
    /// Fibers that have ended with their workers. The successors.
    fibers: AtomicU32,
}

impl Roster {
    pub(crate) fn new(scope: Scope) -> Self {
        let [errno, end, refused] = std::array::from_fn(|_| AtomicI32::new(0));
        let [crew, lost, unclear, fibers] = std::array::from_fn(|_| AtomicU32::new(0));
        Roster { up: Tally::new(scope), crew, errno, lost, end, unclear, refused, fibers }
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

    /// Notes that `worker` has no successor. `refused`: why it was not traced, if it was not.
    pub(super) fn lose(&self, worker: u32, end: ExitStatus, why: Unclear, refused: Option<i32>) {
        self.end.store(end.into_raw(), Ordering::Relaxed);
        self.unclear.store(why.0, Ordering::Relaxed);
        self.refused.store(refused.unwrap_or(0), Ordering::Relaxed);
        // Release: pairs with the Acquire in `loss`.
        self.lost.store(worker + 1, Ordering::Release);
    }

    /// Which worker was lost, how, and why that could not be made good.
    pub(super) fn loss(&self) -> Option<String> {
        // Acquire: pairs with the Release in `lose`.
        let worker = self.lost.load(Ordering::Acquire).checked_sub(1)?;
        let end = ExitStatus::from_raw(self.end.load(Ordering::Relaxed));
        let why = Unclear(self.unclear.load(Ordering::Relaxed)).text();
        let untraced = match self.refused.load(Ordering::Relaxed) {
            0 => String::new(),
            errno => format!(" (not traced: {})", io::Error::from_raw_os_error(errno)),
        };
        Some(format!("worker process {worker} has ended ({end}) and {why}{untraced}"))
    }
}
