//! The blocking pool: threads that make calls for all workers of a runtime, where workers are
//! threads as well. A submitter starts them when needed.

use std::ptr::NonNull;
use std::sync::{MutexGuard, PoisonError};

use daiko_sys::cpu::{self, CpuSet};

use super::job::{KEEP_ALIVE, MOST_THREADS, make, tell};
use super::queue::{BlockingPool, BlockingPoolState, CallJob, Inner};
use crate::runtime;

impl BlockingPool {
    /// Lets a thread make the call, and report its end. A thread that is started for it sets the
    /// mask `cpus`, or keeps that of the caller.
    ///
    /// # Safety
    ///
    /// As for [`make`], from now on.
    pub(super) unsafe fn submit(&self, cpus: Option<&CpuSet>, job: NonNull<CallJob>) {
        let mut state = self.0.lock();
        // SAFETY: the caller has the job alone, so it is in no list; it stays until its end is
        // reported.
        unsafe { state.jobs.push(job) };
        if state.idle >= state.jobs.len() {
            // Unlocked first: the woken thread would wait for the lock.
            drop(state);
            self.0.changed.notify_one();
        } else if state.threads < MOST_THREADS {
            state.threads += 1;
            drop(state);
            self.start_thread(cpus.cloned());
        }
    }

    fn start_thread(&self, cpus: Option<CpuSet>) {
        let pool = self.0.clone();
        let started = runtime::start_thread("daiko-blocking", move || {
            // On the CPU of the worker the calls are only late.
            let _ = cpus.as_ref().map(cpu::bind_current);
            pool.work();
        });
        if started.is_ok() {
            return;
        }
        let mut state = self.0.lock();
        state.threads -= 1;
        // With another thread in the pool the calls are only late; without, their fibers make them.
        if state.threads == 0 {
            let jobs = std::mem::take(&mut state.jobs);
            drop(state);
            // SAFETY: they were the pool's, and are not used any more.
            jobs.for_each(|job| unsafe { tell(job) });
        }
    }

    /// Returns the number of threads that have nothing to run, and sleep for a while before they
    /// end.
    pub(crate) fn idle_threads(&self) -> usize {
        let state = self.0.lock();
        if state.jobs.is_empty() { state.idle } else { 0 }
    }

    /// Lets the threads end once they are idle.
    pub(crate) fn end(&self) {
        self.0.lock().ending = true;
        self.0.changed.notify_all();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BlockingPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop() {
                drop(state);
                // SAFETY: it was the pool's, by the contract of `submit`.
                unsafe { make(job) };
                state = self.lock();
                continue;
            }
            if state.ending {
                break;
            }
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, KEEP_ALIVE);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}
