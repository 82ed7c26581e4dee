//! Where a worker that is a process asks its threads for calls, and is told of their ends.
//!
//! The threads die with the process, at any instruction, and the worker goes on in another: in the middle of what it was
//! at, so that it uses nothing that is private to its process. It starts no thread, as that takes locks and lists of the C library. The
//! first thread does so for it, which comes with the process, and whose pool all others are of. `core::blocking` has the
//! protocol.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use daiko_core::blocking::Ledger;
use daiko_sys::futex::{self, Scope};

use super::{BlockingPool, Errand, Job};
use crate::worker::Worker;

/// One for each worker, in its runtime's memory.
pub(crate) struct Desk {
    ledger: Ledger<Errand>,
    /// Counts how often the first thread was told to look: what it sleeps on.
    rings: AtomicU32,
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
        if unsafe { self.ledger.ask(job) } {
            self.ring();
        }
    }

    fn ring(&self) {
        // Release: pairs with the Acquire in `attend`.
        self.rings.fetch_add(1, Ordering::Release);
        futex::wake(&self.rings, 1, Scope::Shared);
    }

    /// Whether there is something for [`Worker::take_calls`].
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.ledger.has_news()
    }

    /// Whether some call was using the runtime when its thread died. Once the worker's process is dead.
    pub(crate) fn died_in_the_runtime(&self) -> bool {
        self.ledger.died_in_a_call()
    }

    /// The life of the first thread.
    fn attend(&self) -> ! {
        let pool = BlockingPool::default();
        loop {
            // Acquire: pairs with the Release in `ring`. Before the look: whoever asks later rings later.
            let seen = self.rings.load(Ordering::Acquire);
            for job in self.ledger.asked() {
                // SAFETY: nobody else takes it, and it stays until it is told of.
                unsafe { pool.submit(job) };
            }
            let _ = futex::wait(&self.rings, seen, None, Scope::Shared);
        }
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
        let desk = unsafe { &*ptr::from_ref(&self.desk) };
        let thread = std::thread::Builder::new().name("daiko-blocking".into());
        thread.spawn(|| desk.attend()).map(drop)
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
        // SAFETY: whose call it is waits for the wake, and it is the only one.
        let wake =
            |job: NonNull<Job>| unsafe { job.as_ref().payload().fiber.as_ref() }.wake(Some(self));
        if ledger.is_closed() {
            ledger.settle(wake);
            self.desk.ring();
        } else {
            ledger.take_over(wake);
        }
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
