//! Calls that a worker has made by threads which may die at any instruction.
//!
//! README.md beside this file has the states, the steps and the proof. Who makes the calls, and how, is the caller's
//! business.

use std::num::NonZeroU32;
use std::ptr::{self, NonNull};

use crate::fiber::Course;
use crate::list::{Fifo, Linked};
use crate::lock::{Contender, Held, QueueLock};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU8, Ordering, const_fn, unless_weakened};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// No thread has begun with it.
const QUEUED: u8 = 0;
/// A thread has, so that it is never made again.
const RUNNING: u8 = 1;
/// A thread has come to its end, or will not begin.
const OVER: u8 = 2;
/// Its thread died in it.
const LOST: u8 = 3;

/// A call that a thread is to make, in the frame of who waits for its end.
pub struct Job<P> {
    /// QUEUED, RUNNING, OVER: the thread that has it. LOST: the worker, once that thread is dead.
    state: AtomicU8,
    /// That of the caller's own code, as the thread runs it.
    course: Course,
    /// The one pile or queue that it is in. Whoever has it there.
    link: AtomicPtr<Job<P>>,
    /// The ledger's next older one. Under its lock.
    older: AtomicPtr<Job<P>>,
    /// The ledger's next newer one. Under its lock.
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
    /// One that nobody knows of.
    pub fn new(payload: P) -> Self {
        let [link, older, newer] = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        let (state, course) = (AtomicU8::new(QUEUED), Course::new());
        course.reset();
        Job { state, course, link, older, newer, payload }
    }

    /// What call it is.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// Makes the call, which nobody makes again. By the thread that has the job.
    pub fn run<R>(&self, call: impl FnOnce(&Course) -> R) -> R {
        if !cfg!(weaken = "blocking-running") {
            // An exchange: what the call does stays behind it, whatever the compiler would like.
            self.state.swap(RUNNING, Ordering::AcqRel);
        }
        self.course.resume();
        let result = call(&self.course);
        self.course.suspend();
        result
    }

    /// Whether the thread died that had begun with the call. By who waits, once it is told of the end.
    pub fn is_lost(&self) -> bool {
        self.state() == LOST
    }

    fn state(&self) -> u8 {
        // Relaxed: who asks has learned from the pile, or from the thread's end, that nobody writes it.
        self.state.load(Ordering::Relaxed)
    }
}

/// What a worker has asked its threads for, and what they have done.
///
/// It lies where it outlives the threads: they die with their process, at any instruction. The worker does not, as it
/// goes on in another process where it was.
///
/// Budget of a call: five RMWs of the worker, three of the thread.
pub struct Ledger<P> {
    /// Jobs that no thread has seen. The worker pushes.
    asked: Pile<P>,
    /// Jobs that are over. The threads push.
    over: Pile<P>,
    /// Whether threads may take jobs. Cleared where there is no thread, set by the worker.
    open: AtomicBool,
    /// Guards the list of all jobs. The worker's, and who takes over in its stead; no thread's that makes calls.
    lock: QueueLock,
    /// All jobs whose end nobody was told of, newest first.
    newest: AtomicPtr<Job<P>>,
}

impl<P> Ledger<P> {
    const_fn! {
        /// One that is open, without jobs.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            let newest = AtomicPtr::new(ptr::null_mut());
            let (asked, over) = (Pile::new(), Pile::new());
            Ledger { asked, over, open: AtomicBool::new(true), lock: QueueLock::new(), newest }
        }
    }

    /// Keeps threads off until the worker has [settled](Self::settle) what those left who were here before: all of them
    /// are dead, and no other has come yet.
    pub fn close(&self) {
        // Relaxed: threads that are started later see it.
        self.open.store(false, Ordering::Relaxed);
    }

    /// Whether no thread takes jobs before the worker has [settled](Self::settle).
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Relaxed: seen at last.
        !self.open.load(Ordering::Relaxed)
    }

    /// Asks for `job`; true if the threads are to be told of it. Only the worker.
    ///
    /// # Safety
    ///
    /// The job is new. It stays alive and in place until [`take_over`](Self::take_over), [`settle`](Self::settle) or
    /// [`try_take_over`](Self::try_take_over) gives it to who wakes its owner.
    pub unsafe fn ask(&self, by: &impl Contender, job: NonNull<Job<P>>) -> bool {
        // SAFETY: alive, by this function's contract; the lock is held for the list.
        unsafe {
            let held = self.lock.lock(by);
            self.enter(job);
            drop(held);
            self.asked.push(job, unless_weakened!("blocking-ask", Ordering::Release))
        }
    }

    /// Takes what was asked for, oldest first. Any thread.
    ///
    /// Each is to be [run](Job::run), if that can be, and then [told](Self::tell) of.
    pub fn asked(&self) -> Fifo<Job<P>> {
        // Acquire: pairs with the Release in `settle`: what the dead had in hand has been taken back.
        if !self.open.load(Ordering::Acquire) && !cfg!(weaken = "blocking-open") {
            return Fifo::new();
        }
        self.asked.take()
    }

    /// Says that `job` is over. By the thread that has it, and wakes the worker then.
    ///
    /// # Safety
    ///
    /// The caller has it from [`asked`](Self::asked), and does not use it any more.
    pub unsafe fn tell(&self, job: NonNull<Job<P>>) {
        // SAFETY: alive until it is taken from the pile.
        unsafe {
            // Release: behind all that the call did, for the worker that finds this thread dead before the push.
            job.as_ref().state.store(OVER, Ordering::Release);
            let _ = self.over.push(job, unless_weakened!("blocking-over", Ordering::Release));
        }
    }

    /// Whether there is something to [take over](Self::take_over), or to [settle](Self::settle). Only the worker.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.over.is_empty() || self.is_closed()
    }

    /// Gives the jobs that are over to `each`, who may end them: oldest first. Only the worker.
    pub fn take_over(&self, by: &impl Contender, each: impl FnMut(NonNull<Job<P>>)) {
        let _held = self.lock.lock(by);
        self.take_over_locked(each);
    }

    /// As [`take_over`](Self::take_over), in the stead of a worker that is busy, maybe in the midst of that. One other.
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

    /// Takes back what threads had in hand that are dead: what they had not begun with is asked for again; `each` gets
    /// the jobs that are over, and those that are lost. Then threads may take jobs, and are to be told of it. Only the
    /// worker.
    ///
    /// It can stop in between, and go on, also after more deaths.
    pub fn settle(&self, by: &impl Contender, mut each: impl FnMut(NonNull<Job<P>>)) {
        let _held = self.lock.lock(by);
        // What is left there is in the ledger as well.
        let _ = self.asked.take();
        self.take_over_locked(&mut each);
        let mut next = self.oldest();
        while let Some(job) = next {
            // SAFETY: a job of the ledger is alive until `each` gets it; the newer one is asked for before.
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

    /// Whether a thread died in a call of the runtime, which so may be half done. Once the worker's process is dead, whose
    /// first thread was this contender.
    pub fn died_in_a_call(&self, by: &impl Contender, dead: NonZeroU32) -> bool {
        let _held = self.lock_beside(by, dead);
        let mut next = self.newest.load(Ordering::Relaxed);
        // SAFETY: a job of the ledger is alive; those from the newest to the oldest are linked after each store.
        while let Some(job) = unsafe { next.as_ref() } {
            if job.state() == RUNNING && job.course.is_in_call() {
                return true;
            }
            next = job.older.load(Ordering::Relaxed);
        }
        false
    }

    /// Takes the lock, if its holder is not this dead one, who holds it as well against others.
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

    /// Enters a job: whoever goes from the newest to the oldest finds a list after each store.
    ///
    /// # Safety
    ///
    /// It is alive until it has left; the lock is held.
    unsafe fn enter(&self, job: NonNull<Job<P>>) {
        let older = self.newest.load(Ordering::Relaxed);
        // SAFETY: alive, as are all that have not left.
        unsafe {
            job.as_ref().older.store(older, Ordering::Relaxed);
            if let Some(older) = older.as_ref() {
                older.newer.store(job.as_ptr(), Ordering::Relaxed);
            }
        }
        // Release: behind the links, for who reads them when the worker's process is dead.
        self.newest.store(job.as_ptr(), Ordering::Release);
    }

    /// Strikes a job out.
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

/// A list that any thread puts jobs on, and takes as a whole: each by one RMW, before which nothing has happened.
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
        // Relaxed: a look; `take` acquires.
        self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Puts `job` on, with the ordering that its caller names; true if there was none.
    ///
    /// # Safety
    ///
    /// It is in no pile or queue, and alive until it was taken.
    unsafe fn push(&self, job: NonNull<Job<P>>, success: Ordering) -> bool {
        let mut below = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: alive, by this function's contract.
            unsafe { Job::link(job) }.store(below, Ordering::Relaxed);
            // Release, as the callers say: pairs with the Acquire in `take`.
            match self.newest.compare_exchange_weak(below, job.as_ptr(), success, Ordering::Relaxed)
            {
                Ok(_) => return below.is_null(),
                Err(seen) => below = seen,
            }
        }
    }

    /// Takes all, oldest first.
    fn take(&self) -> Fifo<Job<P>> {
        let mut jobs = Fifo::new();
        // Acquire: pairs with the Release of each `push`.
        let mut next = self.newest.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(job) = NonNull::new(next) {
            // SAFETY: alive, as whoever pushed it promised, and in no list now.
            unsafe {
                next = Job::link(job).load(Ordering::Relaxed);
                jobs.push_front(job);
            }
        }
        jobs
    }
}
