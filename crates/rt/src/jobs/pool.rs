//! The blocking pool: threads that make calls for all workers of a runtime, where workers are
//! threads as well. A submitter starts them when needed.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use daiko_sys::cpu::{self, CpuSet};

use super::job::{KEEP_ALIVE, MOST_THREADS, make, tell};
use super::queue::{BlockingPool, BlockingPoolState, CallJob, HandedJob, IdleThread, Inner};
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
        if let Some(idle) = state.idle.pop() {
            // Unlocked first: the thread locks only after the call.
            drop(state);
            idle.hand(job);
            return;
        }
        // SAFETY: the caller has the job alone, so it is in no list; it stays until its end is
        // reported.
        unsafe { state.jobs.push(job) };
        if state.threads < MOST_THREADS {
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
        self.0.lock().idle.len()
    }

    /// Lets the threads end once they are idle.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        state.ending = true;
        state.idle.iter().for_each(|idle| idle.thread.unpark());
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BlockingPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let this = Arc::new(IdleThread { thread: thread::current(), job: Mutex::new(None) });
        while let Some(job) = self.next(&this) {
            // SAFETY: it was the pool's, by the contract of `submit`.
            unsafe { make(job) };
        }
    }

    /// Waits for a call to make. Returns `None` if the thread, which is not counted any more, is to
    /// end.
    fn next(&self, this: &Arc<IdleThread>) -> Option<NonNull<CallJob>> {
        let mut state = self.lock();
        if let Some(job) = state.jobs.pop() {
            return Some(job);
        }
        if state.ending {
            state.threads -= 1;
            return None;
        }
        state.idle.push(Arc::clone(this));
        drop(state);
        // The fiber of the last call may run now and submit its next call, which then needs no wake.
        thread::yield_now();
        let job = this.take();
        if job.is_some() {
            return job;
        }
        loop {
            let begin = Instant::now();
            thread::park_timeout(KEEP_ALIVE);
            let job = this.take();
            if job.is_some() {
                return job;
            }
            if self.leaves(this, begin.elapsed() >= KEEP_ALIVE) {
                return None;
            }
        }
    }

    /// Returns true if the thread ends: it has waited for so long, or the pool is ending, and no
    /// submitter has taken it for a job.
    fn leaves(&self, this: &Arc<IdleThread>, has_waited: bool) -> bool {
        let mut state = self.lock();
        let is_this = |idle: &Arc<IdleThread>| Arc::ptr_eq(idle, this);
        let leaves = (has_waited || state.ending)
            && state.idle.iter().position(is_this).map(|place| state.idle.remove(place)).is_some();
        state.threads -= usize::from(leaves);
        leaves
    }
}

impl IdleThread {
    /// Gives the thread its job. Only the submitter that has taken it out of the idle ones.
    fn hand(&self, job: NonNull<CallJob>) {
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(HandedJob(job));
        self.thread.unpark();
    }

    /// Takes the job, once there is one.
    fn take(&self) -> Option<NonNull<CallJob>> {
        let HandedJob(job) = self.job.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(job)
    }
}
