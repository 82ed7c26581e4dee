//! Calls that threads make on behalf of a worker, and that survive the death of the threads at any
//! instruction.
//!
//! README.md beside this file has the states, the steps and the proof. The threads, and the calls
//! themselves, are the caller's job.

use std::num::NonZeroU32;
use std::ptr::{self, NonNull};

use crate::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering, const_fn, unless_weakened};
use crate::fiber::ExecMode;
use crate::list::{Fifo, Linked};
use crate::lock::{Contender, Held, QueueLock};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// No thread has begun with the job.
const QUEUED: u8 = 0;
/// A thread has begun, so that the call is never made again.
const RUNNING: u8 = 1;
/// A thread has come to its end, or will not begin.
const OVER: u8 = 2;
/// The thread died in the call.
const LOST: u8 = 3;

/// A call for a thread to make, in the frame of the waiter for its end.
pub struct Job<P> {
    /// QUEUED, RUNNING, OVER: written by the thread that has the job. LOST: by the worker, once
    /// that thread is dead.
    state: AtomicU8,
    /// The execution mode of the user code that the thread runs.
    exec_mode: ExecMode,
    /// The link of the one pile or queue that it is in. Written by the party that has the job.
    link: AtomicPtr<Job<P>>,
    /// The next older job of the ledger. Under its lock.
    older: AtomicPtr<Job<P>>,
    /// The next newer job of the ledger. Under its lock.
    newer: AtomicPtr<Job<P>>,
    payload: P,
}

// SAFETY: `link` is one field, and only the lists of this crate write it.
unsafe impl<P> Linked for Job<P> {
    unsafe fn link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: `this` is valid, by the contract of `link`.
        unsafe { &(*this.as_ptr()).link }
    }
}

impl<P> Job<P> {
    /// Creates a job that has not been asked for.
    pub fn new(payload: P) -> Self {
        let [link, older, newer] = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        let (state, exec_mode) = (AtomicU8::new(QUEUED), ExecMode::new());
        exec_mode.reset();
        Job { state, exec_mode, link, older, newer, payload }
    }

    /// Returns the description of the call.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// Makes the call, which is never made again. For the thread that has the job.
    pub fn run<R>(&self, call: impl FnOnce(&ExecMode) -> R) -> R {
        if !cfg!(weaken = "blocking-running") {
            // An exchange, so that the compiler keeps the stores of the call behind it.
            self.state.swap(RUNNING, Ordering::AcqRel);
        }
        self.exec_mode.resume();
        let result = call(&self.exec_mode);
        self.exec_mode.suspend();
        result
    }

    /// Returns true if the thread died that had begun with the call. For the waiter, once it has
    /// learned of the end.
    pub fn is_lost(&self) -> bool {
        self.state() == LOST
    }

    fn state(&self) -> u8 {
        // Relaxed: the caller has learned from the pile, or from the thread's end, that it is not
        // written any more.
        self.state.load(Ordering::Relaxed)
    }
}

/// The jobs of a worker: those that it has asked for, and those that are over.
///
/// It lies in memory that outlives the threads, which die with their process, at any instruction.
/// The worker does not die, as it goes on in another process where it was.
///
/// Budget of a call: five RMWs of the worker, three of the thread.
pub struct JobLedger<P> {
    /// Jobs that no thread has seen. The worker pushes.
    asked: Pile<P>,
    /// Jobs that are over. The threads push.
    over: Pile<P>,
    /// True if threads may take jobs. Cleared while there is no thread, set by the worker.
    open: AtomicBool,
    /// Guards the list of all jobs. Taken by the worker, and by a thread that takes over on its
    /// behalf; not by the threads that make calls.
    lock: QueueLock,
    /// All jobs with an end that has not been reported, newest first.
    newest: AtomicPtr<Job<P>>,
}

impl<P> JobLedger<P> {
    const_fn! {
        /// Creates an open ledger without jobs.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            let newest = AtomicPtr::new(ptr::null_mut());
            let (asked, over) = (Pile::new(), Pile::new());
            JobLedger { asked, over, open: AtomicBool::new(true), lock: QueueLock::new(), newest }
        }
    }

    /// Keeps threads off until the worker has [recovered](Self::settle) the jobs of earlier
    /// threads: all of them are dead, and no new thread exists yet.
    pub fn close(&self) {
        // Relaxed: threads that are started later see it.
        self.open.store(false, Ordering::Relaxed);
    }

    /// Returns true if no thread takes jobs before the worker has [recovered](Self::settle).
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Relaxed: the worker sees it eventually.
        !self.open.load(Ordering::Relaxed)
    }

    /// Asks for `job`; returns true if the threads have to be notified. Only for the worker.
    ///
    /// # Safety
    ///
    /// The job is new. It stays alive and in place until [`take_over`](Self::take_over),
    /// [`settle`](Self::settle) or [`try_take_over`](Self::try_take_over) passes it to the function
    /// that wakes its owner.
    pub unsafe fn ask(&self, by: &impl Contender, job: NonNull<Job<P>>) -> bool {
        // SAFETY: alive, by this function's contract; the lock is held for the list.
        unsafe {
            let held = self.lock.lock(by);
            self.enter(job);
            drop(held);
            self.asked.push(job, unless_weakened!("blocking-ask", Ordering::Release))
        }
    }

    /// Takes the jobs that were asked for, oldest first. For any thread.
    ///
    /// Each has to be [run](Job::run), if possible, and then [reported](Self::tell).
    pub fn asked(&self) -> Fifo<Job<P>> {
        // Acquire: pairs with the Release in `settle`: jobs that dead threads had taken are back.
        if !self.open.load(Ordering::Acquire) && !cfg!(weaken = "blocking-open") {
            return Fifo::new();
        }
        self.asked.take()
    }

    /// Reports that `job` is over. For the thread that has it, which wakes the worker then.
    ///
    /// # Safety
    ///
    /// The caller has it from [`asked`](Self::asked), and does not use it any more.
    pub unsafe fn tell(&self, job: NonNull<Job<P>>) {
        // SAFETY: alive until it is taken from the pile.
        unsafe {
            // Release: behind all stores of the call, for a worker that finds this thread dead
            // before the push.
            job.as_ref().state.store(OVER, Ordering::Release);
            let _ = self.over.push(job, unless_weakened!("blocking-over", Ordering::Release));
        }
    }

    /// Returns true if there are jobs to [take over](Self::take_over), or to
    /// [recover](Self::settle). Only for the worker.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.over.is_empty() || self.is_closed()
    }

    /// Calls `each` with the jobs that are over, oldest first; `each` may end them. Only for the
    /// worker.
    pub fn take_over(&self, by: &impl Contender, each: impl FnMut(NonNull<Job<P>>)) {
        let _held = self.lock.lock(by);
        self.take_over_locked(each);
    }

    /// Takes jobs over like [`take_over`](Self::take_over), on behalf of a worker that is busy,
    /// maybe in the middle of that. At most one thread at a time.
    pub fn try_take_over(&self, by: &impl Contender, each: impl FnMut(NonNull<Job<P>>)) {
        if !self.over.is_empty()
            && let Some(_held) = self.lock.try_lock(by)
        {
            self.take_over_locked(each);
        }
    }

    fn take_over_locked(&self, mut each: impl FnMut(NonNull<Job<P>>)) {
        for job in self.over.take() {
            // SAFETY: it is alive until `each` gets it, and the lock is held.
            unsafe { self.leave(job) };
            each(job);
        }
    }

    /// Recovers the jobs that dead threads had taken: those that had not begun are asked for again;
    /// `each` gets the jobs that are over, and those that are lost. Then threads may take jobs, and
    /// have to be notified. Only for the worker.
    ///
    /// It can stop in between, and go on, also after more deaths.
    ///
    /// # Safety
    ///
    /// No living thread has a job from [`asked`](Self::asked) that it has not reported; none gets
    /// one meanwhile, since the ledger is [closed](Self::close).
    pub unsafe fn settle(&self, by: &impl Contender, mut each: impl FnMut(NonNull<Job<P>>)) {
        let _held = self.lock.lock(by);
        // Its jobs are in the ledger as well.
        let _ = self.asked.take();
        self.take_over_locked(&mut each);
        let mut next = self.oldest();
        while let Some(job) = next {
            // SAFETY: a job of the ledger is alive until `each` gets it; the newer one is asked for
            // before.
            unsafe {
                next = NonNull::new(job.as_ref().newer.load(Ordering::Relaxed));
                self.settle_one(job, &mut each);
            }
        }
        // Release: pairs with the Acquire in `asked`.
        self.open.store(true, Ordering::Release);
    }

    /// # Safety
    ///
    /// The job is in the ledger, and in no pile or queue; the lock is held.
    unsafe fn settle_one(&self, job: NonNull<Job<P>>, each: &mut impl FnMut(NonNull<Job<P>>)) {
        // SAFETY: alive, by this function's contract, until `each` gets it.
        unsafe {
            let state = job.as_ref().state();
            if state == QUEUED {
                let _ = self.asked.push(job, Ordering::Release);
                return;
            }
            if state == RUNNING {
                job.as_ref().state.store(LOST, Ordering::Relaxed);
            }
            self.leave(job);
        }
        each(job);
    }

    /// Returns true if a thread died in a runtime section, which may be half done. `dead` was the
    /// contender of the first thread of the worker's process.
    ///
    /// # Safety
    ///
    /// That process is dead, and no living contender has the id `dead`.
    pub unsafe fn died_in_a_call(&self, by: &impl Contender, dead: NonZeroU32) -> bool {
        let _held = self.lock_beside(by, dead);
        let mut next = self.newest.load(Ordering::Relaxed);
        // SAFETY: a job of the ledger is alive; those from the newest to the oldest are linked
        // after each store.
        while let Some(job) = unsafe { next.as_ref() } {
            if job.state() == RUNNING && job.exec_mode.is_in_call() {
                return true;
            }
            next = job.older.load(Ordering::Relaxed);
        }
        false
    }

    /// Takes the lock, unless its holder is `dead`, which keeps other threads out as well.
    fn lock_beside(&self, by: &impl Contender, dead: NonZeroU32) -> Option<Held<'_>> {
        while self.lock.holder() != Some(dead) {
            match self.lock.try_lock(by) {
                None => by.relax(),
                held => return held,
            }
        }
        None
    }

    fn oldest(&self) -> Option<NonNull<Job<P>>> {
        let mut oldest = NonNull::new(self.newest.load(Ordering::Relaxed))?;
        loop {
            // SAFETY: the jobs of the ledger are alive.
            let older = unsafe { oldest.as_ref() }.older.load(Ordering::Relaxed);
            match NonNull::new(older) {
                Some(older) => oldest = older,
                None => return Some(oldest),
            }
        }
    }

    /// Enters a job. After each store there is a list from the newest to the oldest.
    ///
    /// # Safety
    ///
    /// It is alive until it has left; the lock is held.
    unsafe fn enter(&self, job: NonNull<Job<P>>) {
        let older = self.newest.load(Ordering::Relaxed);
        // SAFETY: alive, as are all jobs that have not left.
        unsafe {
            job.as_ref().older.store(older, Ordering::Relaxed);
            if let Some(older) = older.as_ref() {
                older.newer.store(job.as_ptr(), Ordering::Relaxed);
            }
        }
        // Release: behind the links, for a process that reads them when the worker's process is
        // dead.
        self.newest.store(job.as_ptr(), Ordering::Release);
    }

    /// Takes a job out of the list.
    ///
    /// # Safety
    ///
    /// It has been entered, and has not left; the lock is held.
    unsafe fn leave(&self, job: NonNull<Job<P>>) {
        // SAFETY: alive, as are its neighbours.
        unsafe {
            let [older, newer] =
                [&job.as_ref().older, &job.as_ref().newer].map(|link| link.load(Ordering::Relaxed));
            let before = newer.as_ref().map_or(&self.newest, |newer| &newer.older);
            before.store(older, Ordering::Relaxed);
            if let Some(older) = older.as_ref() {
                older.newer.store(newer, Ordering::Relaxed);
            }
        }
    }
}

/// A stack to which any thread pushes jobs, and which any thread takes as a whole: each by one RMW,
/// before which nothing has happened.
struct Pile<P> {
    newest: AtomicPtr<Job<P>>,
}

impl<P> Pile<P> {
    const_fn! {
        const fn new() -> Self {
            Pile { newest: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    fn is_empty(&self) -> bool {
        // Relaxed: a hint; `take` acquires.
        self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Pushes `job`, with the ordering that the caller names; returns true if the pile was empty.
    ///
    /// # Safety
    ///
    /// It is in no pile or queue, and alive until it was taken.
    unsafe fn push(&self, job: NonNull<Job<P>>, success: Ordering) -> bool {
        let mut below = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: alive, by this function's contract.
            unsafe { Job::link(job) }.store(below, Ordering::Relaxed);
            // Release, by the callers' argument: pairs with the Acquire in `take`.
            match self.newest.compare_exchange_weak(below, job.as_ptr(), success, Ordering::Relaxed)
            {
                Ok(_) => return below.is_null(),
                Err(seen) => below = seen,
            }
        }
    }

    /// Takes all jobs, oldest first.
    fn take(&self) -> Fifo<Job<P>> {
        let mut jobs = Fifo::new();
        // Acquire: pairs with the Release of each `push`.
        let mut next = self.newest.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(job) = NonNull::new(next) {
            // SAFETY: alive, by the contract of `push`, and in no list now.
            unsafe {
                next = Job::link(job).load(Ordering::Relaxed);
                jobs.push_front(job);
            }
        }
        jobs
    }
}
