//! Hosting: an active worker runs the fibers of workers that stand by on its own thread, while
//! their threads sleep. A wake of such a fiber so costs no system call.
//!
//! A worker that stands by and has nothing that needs its own thread [lets](Worker::may_be_hosted)
//! active workers host it when it sleeps. A worker that wakes a fiber there
//! [takes](Worker::takes_guest) it as a guest, and its agent visits its guests between its own
//! fibers. `core::hosting` has the protocol.

use daiko_core::hosting::{Left, Return};

use super::Worker;
use super::source::Source;
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::fiber::ControlBlock;

/// Number of workers that may be guests: a bit for each in a word.
const MOST: u32 = u64::BITS;

impl Worker {
    /// Returns the worker on the thread of which this one runs: itself, or its host. Only on that
    /// thread.
    #[inline]
    pub fn on_thread(&self) -> &Worker {
        // SAFETY: workers live as long as their runtime.
        self.host.get().map_or(self, |host| unsafe { host.as_ref() })
    }

    /// Returns true if a host runs this worker. Only on the host's thread.
    #[inline]
    pub(super) fn is_hosted(&self) -> bool {
        self.host.get().is_some()
    }

    /// Returns true if other threads may run this worker while its thread sleeps on its token.
    /// Borrowed fibers need the thread-locals of their worker, descriptors its selector, and
    /// watches its looks.
    pub(super) fn may_be_hosted(&self) -> bool {
        let runtime = self.runtime();
        !self.is_active()
            && self.index < MOST.min(runtime.worker_count() as u32)
            && !runtime.options.processes
            && self.borrowed.get() == 0
            && self.unwinding.get() == 0
            && !runtime.lends_to_movers.load(Ordering::Relaxed)
            && !self.sources.has_any()
            && !self.watches.any_polled()
            && !self.watches.any_doorbell()
    }

    /// Takes `guest` as a guest; this worker's thread has taken its mark. False: its thread has
    /// to be woken.
    pub(super) fn takes_guest(&self, guest: &Worker) -> bool {
        let host = self.on_thread();
        let may_host = host.is_of(guest.runtime()) && host.is_active() && !host.is_shutting_down();
        if !may_host || guest.is_active() || !guest.hosting.take(host.index) {
            return false;
        }
        host.guests.set(host.guests.get() | 1 << guest.index);
        true
    }

    /// Runs fibers of each guest that has some; returns true if there were any.
    #[inline]
    pub(super) fn run_guests(&self) -> bool {
        self.guests.get() != 0 && self.visit_guests()
    }

    /// Returns true if a guest has work.
    #[inline]
    pub(super) fn guests_have_work(&self) -> bool {
        self.guests.get() != 0 && self.each_guest(Self::has_work_of)
    }

    /// Calls `each` with every guest; returns true if it returned true for any.
    fn each_guest(&self, mut each: impl FnMut(&Worker) -> bool) -> bool {
        let (mut left, mut any) = (self.guests.get(), false);
        while left != 0 {
            any |= each(&self.runtime().workers()[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
        any
    }

    fn has_work_of(guest: &Worker) -> bool {
        // Relaxed: this thread has written it, or has lost the guest.
        guest.inbox.has_mail() || guest.backlog.load(Ordering::Relaxed)
    }

    fn forget(&self, guest: &Worker) {
        self.guests.set(self.guests.get() & !(1 << guest.index));
    }

    #[inline(never)]
    fn visit_guests(&self) -> bool {
        self.each_guest(|guest| {
            let has_work = Self::has_work_of(guest);
            if has_work && self.enters(guest) {
                self.seat_guest(guest, || {
                    // Until it has nothing to run, or the host's sources are due.
                    if let Some(fiber) = guest.pick() {
                        guest.resume(fiber);
                    }
                });
                self.leaves(guest);
            }
            has_work
        })
    }

    fn enters(&self, guest: &Worker) -> bool {
        let enters = guest.hosting.enter(self.index);
        if !enters {
            self.forget(guest);
        }
        enters
    }

    /// Ends a run of `guest`, or of a look at it.
    fn leaves(&self, guest: &Worker) {
        guest.backlog.store(guest.has_runnable(), Ordering::Relaxed);
        if guest.needs_own_thread() {
            // The host itself runs it, and gives the token below.
            let _ = guest.hosting.recall();
        }
        if guest.hosting.leave(self.index) == Left::OwesToken {
            self.forget(guest);
            guest.unpark_thread(Some(self));
        }
    }

    /// Returns true if this guest has come to need the thread that it has.
    fn needs_own_thread(&self) -> bool {
        self.needs_thread.get()
            || self.timers.next_due() < self.sleeps_until.get()
            || self.runtime().phase() != self.phase.get()
            || !self.may_be_hosted()
    }

    /// Puts all guests back before this worker sleeps; false if one of them has work.
    pub(super) fn puts_guests_back(&self) -> bool {
        !self.each_guest(|guest| {
            if Self::has_work_of(guest) {
                return true;
            }
            if !self.enters(guest) {
                return false;
            }
            // As before any sleep: other workers may need the stacks.
            let pools = || guest.pool.give_back(InCall::agent(guest), &self.runtime().pool);
            self.seat_guest(guest, pools);
            let phase = guest.phase.get();
            if !guest.inbox.park() {
                self.leaves(guest);
                return true;
            }
            self.forget(guest);
            let pending =
                || guest.is_active() || guest.sources.has_any() || self.runtime().phase() != phase;
            let left = guest.hosting.put_back(self.index, pending, || guest.inbox.unpark());
            if left == Left::OwesToken {
                guest.unpark_thread(Some(self));
            }
            false
        })
    }

    /// Calls `run`, in which this thread is `guest`.
    fn seat_guest(&self, guest: &Worker, run: impl FnOnce()) {
        let seat = self.seat.get();
        let (own_seat, own_thread) =
            (guest.seat.replace(seat), guest.thread.load(Ordering::Relaxed));
        guest.thread.store(self.thread.load(Ordering::Relaxed), Ordering::Relaxed);
        guest.host.set(Some(self.into()));
        self.runs_guest.store(guest.index + 1, Ordering::Relaxed);
        self.sit_as(guest);
        run();
        self.sit_as(self);
        self.runs_guest.store(0, Ordering::Relaxed);
        guest.host.set(None);
        guest.thread.store(own_thread, Ordering::Relaxed);
        guest.seat.set(own_seat);
    }

    fn sit_as(&self, worker: &Worker) {
        if let Some(seat) = self.seat.get() {
            // SAFETY: this thread sits there. It runs no fiber at this time, so that none takes
            // one worker for another.
            unsafe { seat.set_occupant(std::ptr::from_ref(worker).cast()) };
        }
    }

    /// Returns true if `fiber`, which has not started, must not start on this thread: it would
    /// borrow the thread-locals of a worker that runs on another one.
    #[inline]
    pub(super) fn waits_for_thread(&self, fiber: &ControlBlock) -> bool {
        let waits = self.is_hosted() && !fiber.is_own();
        if waits {
            self.needs_thread.set(true);
        }
        waits
    }

    /// Ends the sleep of this worker's own thread, in which others may have hosted it; afterwards
    /// the thread has it.
    pub(super) fn come_back(&self, returned: Return) {
        let awaits = match returned {
            Return::Alone => !self.inbox.unpark(),
            Return::TakenBack => false,
            Return::AwaitsToken => true,
        };
        if awaits {
            // The thread that has taken the mark touches this worker until it has stored the token.
            // Before that neither the worker nor the runtime may end.
            self.await_token();
            self.hosting.arrive();
        }
        self.needs_thread.set(false);
        self.backlog.store(false, Ordering::Relaxed);
    }

    /// Gives this worker back to its own thread, if a host has it: that thread wakes now, or as
    /// soon as the host has left it. Any thread.
    pub(crate) fn recall(&self) {
        if self.hosting.recall() {
            self.unpark_thread(super::current());
        }
    }
}
