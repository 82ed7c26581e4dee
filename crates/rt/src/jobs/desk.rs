//! Where a worker that is a process asks its threads for calls, and is told of their ends.
//!
//! The threads (`staff`) die with the process, at any instruction, and the worker goes on in another: in the middle of what it
//! was at, so that it uses nothing that is private to its process. `core::blocking` has the protocol.

use std::io;
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use daiko_core::blocking::Ledger;
use daiko_sys::futex::{self, Scope};

use super::{Errand, Job, staff};
use crate::runtime::kernel::ThisThread;
use crate::worker::{Round, Source, Worker};

/// One for each worker, in its runtime's memory.
pub(crate) struct Desk {
    pub(super) ledger: Ledger<Errand>,
    /// Counts how often threads were told to look: what they sleep on.
    pub(super) rings: AtomicU32,
}

impl Desk {
    pub(crate) const fn new() -> Self {
        Desk { ledger: Ledger::new(), rings: AtomicU32::new(0) }
    }

    /// Has a thread make the call; [`Worker::take_calls`] wakes its fiber then. Only the worker.
    ///
    /// # Safety
    ///
    /// As for [`Ledger::ask`]: until its fiber is woken.
    pub(super) unsafe fn ask(&self, job: NonNull<Job>) {
        // SAFETY: passed on to the caller.
        if unsafe { self.ledger.ask(&ThisThread, job) } {
            self.ring();
        }
    }

    fn ring(&self) {
        // Release: pairs with the Acquire in `staff`, so that who does not sleep for this sees what it is for.
        self.rings.fetch_add(1, Ordering::Release);
        futex::wake(&self.rings, 1, Scope::Shared);
    }

    /// Whether there is something for [`Worker::take_calls`].
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.ledger.has_news()
    }
}

impl Worker {
    /// Starts the first thread in a process that is to be this worker; the one before and its threads are dead, if there
    /// was one.
    ///
    /// # Errors
    ///
    /// If there can be no more threads.
    pub(crate) fn staff_desk(&self) -> io::Result<()> {
        self.desk.ledger.close();
        // SAFETY: the runtime's memory stays until no process of a worker is left.
        staff::begin(unsafe { &*ptr::from_ref(&self.desk) })
    }

    /// Wakes the fibers whose calls are over; true if there may be any. The first time in its process, those as well
    /// whose calls were lost with the one before. Only the owner.
    #[inline]
    pub(crate) fn take_calls(&self) -> bool {
        let news = self.desk.has_news();
        if news {
            self.take_calls_slow();
        }
        news
    }

    #[cold]
    fn take_calls_slow(&self) {
        let ledger = &self.desk.ledger;
        if ledger.is_closed() {
            ledger.settle(&ThisThread, |job| wake(job, Some(self)));
            self.desk.ring();
        } else {
            ledger.take_over(&ThisThread, |job| wake(job, Some(self)));
        }
    }

    /// Wakes the fibers whose calls are over, for this worker, which is stuck. By the monitor.
    pub(crate) fn rescue_calls(&self) {
        self.desk.ledger.try_take_over(&ThisThread, |job| wake(job, None));
    }

    /// Whether some call was using the runtime when its thread died. Once the worker's process is dead.
    pub(crate) fn died_in_a_call(&self) -> bool {
        let dead = NonZeroU32::new(self.thread.load(Ordering::Relaxed));
        dead.is_some_and(|dead| self.desk.ledger.died_in_a_call(&ThisThread, dead))
    }

    /// Says that a call of this worker is over. By the thread that has it.
    ///
    /// Whatever of this the thread does not come to, as it dies, the worker's next process makes up for: it looks at
    /// all calls, and finds a token where it sleeps.
    ///
    /// # Safety
    ///
    /// As for [`Ledger::tell`].
    pub(super) unsafe fn call_is_over(&self, job: NonNull<Job>) {
        // SAFETY: passed on to the caller.
        unsafe { self.desk.ledger.tell(job) };
        // Pairs with the barrier between the worker's parked mark and its last look.
        fence(Ordering::SeqCst);
        self.unpark(None);
    }
}

impl Source for Desk {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        by.take_calls()
    }

    fn is_pending(&self, _: &Worker) -> bool {
        self.has_news()
    }
}

/// Wakes the fiber whose call is over, or lost.
fn wake(job: NonNull<Job>, here: Option<&Worker>) {
    // SAFETY: the ledger has given the job to the caller, who has the only wake for who waits.
    unsafe { job.as_ref().payload().fiber.as_ref() }.wake(here);
}
