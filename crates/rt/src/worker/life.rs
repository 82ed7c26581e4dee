//! The life of a worker's thread, and the work that is left once it has ended.

use std::ptr;

use daiko_context::seat::{Seat, SeatError};

use super::source::Source;
use super::state::Worker;
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::deadline::Deadline;
use crate::fiber::AbortOnUnwind;
use crate::runtime::pool::Pool;

impl Worker {
    /// Runs fibers until the runtime ends. This is the body of the worker's thread.
    pub(crate) fn main(&self) {
        // Timers shall be exact even if the worker sleeps; if the kernel refuses, they are late.
        let _ = daiko_sys::thread::set_timer_slack_ns(1);
        if let Some(hook) = self.runtime().options.on_worker_start {
            hook();
        }
        self.count_in();
        self.run_agent();
        self.count_out();
        self.sources.each(|_, source| source.leave());
        self.leave_seat();
    }

    /// Counts this worker out of those that the monitor looks at, until it may run a fiber again.
    pub(super) fn count_out(&self) {
        if !self.counted_out.load(Ordering::Relaxed) {
            self.runtime().monitor.worker_parks();
            self.counted_out.store(true, Ordering::Relaxed);
        }
    }

    /// Counts this worker in again.
    pub(super) fn count_in(&self) {
        if self.counted_out.load(Ordering::Relaxed) {
            self.runtime().monitor.worker_runs();
            self.counted_out.store(false, Ordering::Relaxed);
        }
    }

    /// Runs [`main`](Self::main) as a thread of its own. If the worker keeps fibers it does not
    /// return: the calling thread sleeps for good, and uses the runtime no more.
    pub(crate) fn main_of_thread(&self) {
        // A panic of the agent would end the thread as well.
        let unwinds = AbortOnUnwind;
        self.main();
        std::mem::forget(unwinds);
        if self.keeps_fibers() {
            self.runtime().ended.add();
            loop {
                std::thread::park();
            }
        }
    }

    /// Returns true if a fiber that this worker has started has not finished. Then its thread must
    /// not end: the fiber may have lent a thread-local, which the end of the thread drops. Only the
    /// owner.
    ///
    /// Migratable fibers do not count, as their contract forbids them to borrow from thread-locals.
    fn keeps_fibers(&self) -> bool {
        self.live.load(Ordering::Relaxed) != 0
    }

    /// Makes the calling thread this worker.
    ///
    /// # Errors
    ///
    /// If there is no seat for it.
    pub(crate) fn take_seat(&self) -> Result<(), SeatError> {
        self.seat.set(Some(Seat::take(ptr::from_ref(self).cast())?));
        self.thread.store(daiko_sys::thread::id(), Ordering::Relaxed);
        Ok(())
    }

    /// Makes the calling thread no worker any more.
    fn leave_seat(&self) {
        if let Some(seat) = self.seat.take() {
            // SAFETY: this thread has taken it; the agent runs under its thread pointer.
            unsafe { seat.leave() };
        }
    }

    /// Runs fibers until the runtime ends, on the main thread of a worker process.
    pub(crate) fn main_of_process(&self) {
        self.alone.set(true);
        self.main();
    }

    /// Returns true if the worker's thread has ended or is about to end, so that it can be joined.
    pub(crate) fn ends_thread(&self) -> bool {
        // Acquire: pairs with the Release in `start_thread`.
        self.thread_ends.load(Ordering::Acquire)
    }

    /// Returns true if no fiber waits for this worker to start it.
    pub(crate) fn is_drained(&self) -> bool {
        // The inbox is not asked: the monitor may have its messages in hand.
        // Acquire: pairs with the Release in `start` and in `take_back`.
        self.ring.steal().is_empty() && self.coming.load(Ordering::Acquire) == 0
    }

    /// Returns true if there is a message for this worker.
    pub(crate) fn has_mail(&self) -> bool {
        self.inbox.has_mail()
    }

    /// Returns true if the worker runs no fiber, and will not until another thread or process gives
    /// it work.
    pub(crate) fn is_idle(&self) -> bool {
        self.running_addr() == 0
            && (self.is_parked() || !self.inbox.has_mail())
            && self.is_drained()
            && !self.is_awaited()
            && self.timers.next_due() == Deadline::NEVER
    }

    /// Accepts no more messages, and returns the stacks that the worker kept. To be called once its
    /// thread uses the runtime no more.
    pub(crate) fn close(&self, call: InCall<'_>, pool: &Pool) {
        for (fiber, inline) in self.inbox.close() {
            if inline.is_none() {
                // SAFETY: messages keep the fiber in use.
                self.discard_messages(call, unsafe { fiber.as_ref() });
            }
        }
        self.free_ring(pool);
        self.pool.give_back(call, pool);
        self.give_stack_back(call);
    }
}
