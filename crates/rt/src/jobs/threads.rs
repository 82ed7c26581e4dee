//! The threads of one process that make the calls submitted to the queue (`submissions`) of its
//! worker.
//!
//! Threads start threads. The worker must not: in the middle of a start there are locks and lists
//! of the C library, which stay in a process that is killed. So a thread that leaves to make a call
//! ensures that another attends the queue, and the first comes with the process. The threads'
//! knowledge of each other is private to them, and ends with them.

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daiko_core::list::Fifo;
use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::futex::{self, Scope, WaitEnd};
use daiko_sys::thread;

use super::job::{KEEP_ALIVE, MOST_THREADS, make};
pub(super) use super::queue::{CallJob, SubmissionQueue};
use crate::atomic::Ordering;
use crate::deadline::Deadline;

struct PoolThreads {
    submissions: &'static SubmissionQueue,
    /// The mask that each thread sets; `None`: that of the worker, which it inherits.
    cpus: Option<&'static CpuSet>,
    state: Mutex<PoolThreadsState>,
}

struct PoolThreadsState {
    /// Jobs that were taken from the queue and not begun.
    jobs: Fifo<CallJob>,
    threads: usize,
    /// Number of threads that attend the queue: they sleep, or are about to look.
    attending: usize,
}

// SAFETY: the thread that has the state has the jobs in it alone, and closures and results of the
// calls are Send.
unsafe impl Send for PoolThreadsState {}

/// Starts a first thread that attends `submissions`. It and those that it starts set the mask
/// `cpus`, or keep that of the caller.
pub(super) fn begin(
    submissions: &'static SubmissionQueue,
    cpus: Option<&'static CpuSet>,
) -> io::Result<()> {
    let state = PoolThreadsState { jobs: Fifo::new(), threads: 1, attending: 1 };
    Arc::new(PoolThreads { submissions, cpus, state: Mutex::new(state) }).start()
}

impl PoolThreads {
    /// Starts a thread that is counted already.
    fn start(self: &Arc<Self>) -> io::Result<()> {
        let threads = self.clone();
        // Not by `std`, which would enter it in a table that all processes share, on the heap.
        thread::start(c"daiko-blocking", move || threads.work())
    }

    fn lock(&self) -> MutexGuard<'_, PoolThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(self: &Arc<Self>) {
        // On the CPU of the worker the calls are only late.
        let _ = self.cpus.map(cpu::bind_current);
        while let Some(job) = self.next() {
            // SAFETY: the job was submitted by the contract of `SubmissionQueue::ask`, and no other
            // thread has taken it.
            unsafe { make(job) };
            self.lock().attending += 1;
        }
    }

    /// Waits for a call to make; returns `None` if the thread is not needed any more.
    fn next(self: &Arc<Self>) -> Option<NonNull<CallJob>> {
        loop {
            // Acquire: pairs with the Release in `SubmissionQueue::ring`. Before the look: a later
            // submission rings later.
            let seen = self.submissions.rings.load(Ordering::Acquire);
            let taken = self.take();
            if taken.is_some() {
                return taken;
            }
            let due = Deadline::after(KEEP_ALIVE).ns();
            let rings = &self.submissions.rings;
            let waited = futex::wait_through_signals(rings, seen, due, Scope::Shared);
            if waited == WaitEnd::TimedOut && self.leaves() {
                return None;
            }
        }
    }

    /// Takes the oldest call, if there is one, and leaves the queue to another thread.
    fn take(self: &Arc<Self>) -> Option<NonNull<CallJob>> {
        let mut state = self.lock();
        state.jobs.append(&mut self.submissions.ledger.asked());
        let job = state.jobs.pop()?;
        state.attending -= 1;
        if state.attending == 0 && state.threads < MOST_THREADS {
            self.add(state);
        } else if !state.jobs.is_empty() {
            drop(state);
            futex::wake(&self.submissions.rings, 1, Scope::Shared);
        }
        Some(job)
    }

    /// Starts one more thread. If that fails, calls wait for the existing threads.
    fn add(self: &Arc<Self>, mut state: MutexGuard<'_, PoolThreadsState>) {
        state.threads += 1;
        state.attending += 1;
        drop(state);
        if self.start().is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            state.attending -= 1;
        }
    }

    /// Returns true if the calling thread, which has waited for long, ends: if another attends.
    fn leaves(&self) -> bool {
        let mut state = self.lock();
        let leaves = state.attending > 1 && state.jobs.is_empty();
        if leaves {
            state.threads -= 1;
            state.attending -= 1;
        }
        leaves
    }
}
