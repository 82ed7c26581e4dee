//! The submission queue of a worker process: the worker submits calls to its threads there, and the
//! threads report their ends.
//!
//! The threads (`threads`) die with the process, at any instruction, and the worker goes on in
//! another process, in the middle of its work. So the worker uses no state here that is private to
//! its process. `core::blocking` has the protocol.

use std::io;
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};

use daiko_core::announce::{Announcement, LastLook};
use daiko_sys::futex::{self, Scope};

use super::queue::{CallJob, SubmissionQueue};
use super::threads;
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::runtime::kernel::ThisThread;
use crate::worker::{Round, Source, Worker};

impl SubmissionQueue {
    /// Lets a thread make the call; after that, [`Worker::take_calls`] wakes its fiber. Only the
    /// worker.
    ///
    /// # Safety
    ///
    /// As for [`JobLedger::ask`]: until its fiber is woken.
    pub(super) unsafe fn ask(&self, call: InCall<'_>, job: NonNull<CallJob>) {
        // SAFETY: by this function's contract.
        if unsafe { self.ledger.ask(ThisThread::of(call), job) } {
            self.ring();
        }
    }

    fn ring(&self) {
        // Release: pairs with the Acquire in `PoolThreads::next`: a thread that does not sleep
        // because of this ring sees the job that it is for.
        self.rings.fetch_add(1, Ordering::Release);
        futex::wake(&self.rings, 1, Scope::Shared);
    }

    /// Returns true if there is work for [`Worker::take_calls`].
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.ledger.has_news()
    }
}

impl Worker {
    /// Starts the first thread in a process that is to become this worker. The process before, if
    /// there was one, and its threads are dead.
    ///
    /// # Errors
    ///
    /// If there can be no more threads.
    pub(crate) fn start_threads(&self) -> io::Result<()> {
        self.submissions.ledger.close();
        let cpus = self.runtime().affinity.of_blocking_thread();
        // SAFETY: the runtime's memory stays until no process of a worker is left.
        unsafe {
            threads::begin(
                &*ptr::from_ref(&self.submissions),
                cpus.map(|cpus| &*ptr::from_ref(cpus)),
            )
        }
    }

    /// Wakes the fibers of calls that are over; returns true if there may be any. The first time in
    /// its process, also the fibers of calls that were lost with the process before. Only the
    /// owner.
    #[inline]
    pub(crate) fn take_calls(&self) -> bool {
        let news = self.submissions.has_news();
        if news {
            self.take_calls_slow();
        }
        news
    }

    #[cold]
    fn take_calls_slow(&self) {
        let call = InCall::agent(self);
        let ledger = &self.submissions.ledger;
        if ledger.is_closed() {
            // SAFETY: the ledger was closed once the threads of an earlier process were dead; those
            // of this one get no job while it is closed.
            unsafe { ledger.settle(ThisThread::of(call), |job| wake(call, job, Some(self))) };
            self.submissions.ring();
        } else {
            ledger.take_over(ThisThread::of(call), |job| wake(call, job, Some(self)));
        }
    }

    /// Wakes the fibers of calls that are over, for this worker, which is stuck. Only for the
    /// monitor.
    pub(crate) fn rescue_calls(&self) {
        let call = InCall::agent(self);
        self.submissions.ledger.try_take_over(ThisThread::of(call), |job| wake(call, job, None));
    }

    /// Returns true if a call was using the runtime when its thread died. Once the worker's process
    /// is dead.
    pub(crate) fn died_in_a_call(&self) -> bool {
        let call = InCall::off_fibers();
        let dead = NonZeroU32::new(self.thread.load(Ordering::Relaxed));
        let ledger = &self.submissions.ledger;
        // SAFETY: the worker's process is dead, as the caller has found; `dead` was its first
        // thread, which took no other id.
        dead.is_some_and(|dead| unsafe { ledger.died_in_a_call(ThisThread::of(call), dead) })
    }

    /// Reports that a call of this worker is over. Only for the thread that has the call.
    ///
    /// If the thread dies in the middle, the worker's next process makes up for the missing steps:
    /// it looks at all calls, and finds a token where it sleeps.
    ///
    /// # Safety
    ///
    /// As for [`JobLedger::tell`].
    pub(super) unsafe fn call_is_over(&self, job: NonNull<CallJob>) {
        // SAFETY: by this function's contract.
        unsafe { self.submissions.ledger.tell(job) };
        self.unpark_for(&Announcement::of_changes());
    }
}

impl Source for SubmissionQueue {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        by.take_calls()
    }

    fn is_pending(&self, _: &Worker, _: &LastLook) -> bool {
        self.has_news()
    }
}

/// Wakes the fiber of a call that is over, or lost.
fn wake(call: InCall<'_>, job: NonNull<CallJob>, here: Option<&Worker>) {
    // SAFETY: the job ledger has given the job to the caller, which has the waiter's only wake.
    unsafe { job.as_ref().payload().fiber.as_ref() }.wake(call, here);
}
