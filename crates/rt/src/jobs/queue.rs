//! The jobs that are submitted: for a worker that is a process, and for workers that are threads.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex};

use daiko_core::blocking::{self, JobLedger};
use daiko_core::list::Chain;

use crate::atomic::AtomicU32;
use crate::fiber::ControlBlock;
use crate::worker::Worker;

/// The payload of a job: a call, and the parties to notify.
pub(super) struct CallRecord {
    pub(super) call: NonNull<()>,
    pub(super) run: unsafe fn(NonNull<()>),
    pub(super) fiber: NonNull<ControlBlock>,
    /// The worker process to which the call was submitted. It is notified of the end, even if the
    /// fiber was interrupted and waits elsewhere by now.
    pub(super) submissions: Option<NonNull<Worker>>,
}

pub(super) type CallJob = blocking::Job<CallRecord>;

/// The submission queue of one worker, in its runtime's memory.
pub(crate) struct SubmissionQueue {
    pub(super) ledger: JobLedger<CallRecord>,
    /// Number of times that threads were told to look: the word that they sleep on.
    pub(super) rings: AtomicU32,
}

impl SubmissionQueue {
    pub(crate) const fn new() -> Self {
        SubmissionQueue { ledger: JobLedger::new(), rings: AtomicU32::new(0) }
    }
}

/// The threads, of which there may be none.
#[derive(Default)]
pub(crate) struct BlockingPool(pub(super) Arc<Inner>);

#[derive(Default)]
pub(super) struct Inner {
    pub(super) state: Mutex<BlockingPoolState>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct BlockingPoolState {
    pub(super) jobs: Chain<CallJob>,
    pub(super) threads: usize,
    pub(super) idle: usize,
    pub(super) ending: bool,
}

// SAFETY: the thread that has the state has the jobs in it alone, and closures and results of the
// calls are Send.
unsafe impl Send for BlockingPoolState {}
