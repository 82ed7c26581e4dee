//! Scheduling: the choice of the fiber that runs next, unless it comes from the LIFO slot
//! (`Worker::pick` in `suspend.rs`).
//!
//! Order: LIFO slot, the two local queues in turn, inbox. Every 16th pick comes from the local
//! queues if they have any fiber. While fibers that placement has sent here have not started, one
//! of four picks starts one of them. At every 61st, and whenever the monitor raised the tick flag,
//! the agent's sources come first (`core::budget` counts). So a runnable fiber waits for at most 16
//! picks for each fiber queued before it, and a source for at most 61 picks. Each pick takes as
//! long as the longest run between two suspensions.

use std::ptr::NonNull;

use daiko_context::seat;
use daiko_core::fiber::{Early, LifoEntry, Owner, Transition};
use daiko_core::governor::Company;
use daiko_core::list::Fifo;
use daiko_core::place;

use super::{Round, Worker};
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::fiber::{AbortOnUnwind, ControlBlock};
use crate::process;
use crate::runtime::phase;

impl Worker {
    /// Picks from the queues at every 16th pick, or at a tick, so that fibers behind the LIFO slot
    /// get a turn. Every other time it starts a fiber that was placed here, if there is one.
    #[cold]
    #[inline(never)]
    pub(super) fn pick_slow(&self) -> Option<&ControlBlock> {
        match self.attention.is_traced() {
            true => self.pick_traced(),
            false => self.pick_in_turn(),
        }
    }

    /// Picks as [`pick_slow`](Self::pick_slow) does, where no events are recorded.
    #[inline]
    pub(super) fn pick_in_turn(&self) -> Option<&ControlBlock> {
        if self.budget.start_run(self.attention.has_tick()) {
            self.attention.clear_tick();
            self.poll_sources_of_departing();
            if self.is_hosted() || self.guests.get() != 0 {
                if self.is_hosted() {
                    // The sources of the host are due as well.
                    self.on_thread().attention.raise_tick();
                }
                // The agent runs guests and hosts in turn.
                if let Some(entry) = self.next.replace(None) {
                    self.enqueue_entry(InCall::agent(self), entry);
                }
                return None;
            }
        }
        if !self.placed.is_empty()
            && self.budget.outside()
            && let Some(fiber) = self.start_placed()
        {
            return Some(fiber);
        }
        if self.pinned().is_empty() && self.stealable().is_empty() {
            // The queues have no turn to take. In a queue, the fiber would only wake a thief.
            return self.pick_next();
        }
        if let Some(entry) = self.next.replace(None) {
            self.enqueue_entry(InCall::agent(self), entry);
        }
        self.pick_queued()
    }

    /// Polls the sources on the stack of the fiber that departs, with the thread-locals of the
    /// worker: sources have user code, which finds the same thread-locals as in the agent.
    #[inline(never)]
    fn poll_sources_of_departing(&self) {
        // SAFETY: a worker that runs has a seat.
        let seat = unsafe { self.seat.get().unwrap_unchecked() };
        if seat.thread_pointer() == seat.own_thread_pointer() {
            self.poll_sources(Round::Busy);
            return;
        }
        // SAFETY: a worker calls. This function is not inlined, and uses no thread-local.
        unsafe {
            seat::with_own_thread_pointer(|| {
                // The count of panics is one of these thread-locals.
                let unwinds = AbortOnUnwind;
                self.poll_sources(Round::Busy);
                std::mem::forget(unwinds);
            });
        }
    }

    /// Picks the next fiber from the queues. The usual path calls nothing, and so saves no
    /// register.
    #[inline(never)]
    pub(super) fn pick_queued(&self) -> Option<&ControlBlock> {
        if self.has_siblings() {
            return self.pick_beside();
        }
        let popped = self.pop();
        // SAFETY: a queued fiber is in use.
        match popped.map(|fiber| unsafe { fiber.as_ref() }) {
            Some(fiber) if fiber.owner.is(self) => {
                self.prefetch_behind(fiber);
                Some(fiber)
            }
            _ => self.pick_queued_slow(popped),
        }
    }

    /// Picks from the queues after `popped`, if any: a fiber that may not be this worker's.
    #[inline(never)]
    fn pick_queued_slow(&self, mut popped: Option<NonNull<ControlBlock>>) -> Option<&ControlBlock> {
        loop {
            match popped {
                Some(fiber) => {
                    // SAFETY: a queued fiber is in use.
                    let fiber = unsafe { fiber.as_ref() };
                    if fiber.owner.is(self) {
                        return Some(fiber);
                    }
                    if let Some(fiber) = self.admit(fiber) {
                        return Some(fiber);
                    }
                    if self.needs_thread.get() {
                        return None;
                    }
                }
                None if !self.placed.is_empty() => return self.start_placed(),
                None if self.inbox.has_mail() => self.read_mail(),
                None => return None,
            }
            popped = if self.has_siblings() { self.pop_beside() } else { self.pop() };
        }
    }

    /// Picks from the queues where siblings have a say. A separate function, because its calls need
    /// registers.
    #[inline(never)]
    fn pick_beside(&self) -> Option<&ControlBlock> {
        self.pick_queued_slow(self.pop_beside())
    }

    /// Takes the oldest fiber of one of the queues, which take turns.
    #[inline]
    fn pop(&self) -> Option<NonNull<ControlBlock>> {
        if self.budget.second_first() {
            self.pinned().pop().or_else(|| self.stealable().pop())
        } else {
            self.stealable().pop().or_else(|| self.pinned().pop())
        }
    }

    /// Makes a fiber taken from a queue this worker's own: starts it, or records that a migratable
    /// fiber is here now. Returns `None` if the fiber goes to another worker instead.
    #[inline(never)]
    pub(super) fn admit<'w>(&'w self, fiber: &'w ControlBlock) -> Option<&'w ControlBlock> {
        let call = InCall::agent(self);
        if self.alone.get() {
            self.cross();
        }
        // A thief without siblings does not look at this count.
        fiber.class.set_passed(0);
        if !matches!(fiber.owner.load(), Owner::Unstarted) {
            debug_assert!(fiber.is_migratable());
            fiber.owner.moved_to(self);
            return Some(fiber);
        }
        // Not during shutdown: a worker that has ended already would not start the fiber.
        if !fiber.flags.is_placed()
            && self.runtime().phase() == phase::RUNNING
            && let place::StartPlace::To(other) = self.runtime().place_start(self)
        {
            self.counters.imbalance.add(1);
            self.runtime().send_placed(call, Some(self), other, fiber);
            return None;
        }
        if self.waits_for_thread(fiber) {
            // SAFETY: the fiber is in no list, and stays in use until it has run.
            unsafe { self.pinned().push(NonNull::from(fiber)) };
            return None;
        }
        self.start(call, fiber);
        Some(fiber)
    }

    /// Makes `child` the fiber that runs next, if it has not started and is in this worker's queue:
    /// the caller is about to wait for it. Without a search, as the child knows its place. Returns
    /// true if it does.
    ///
    /// Children so begin in the order in which they are joined, as calls would, and a nest of them
    /// keeps as few stacks as it is deep; thieves take the oldest, which have most of the work.
    /// Siblings have a say in what runs next, so with them the child waits for its turn.
    #[inline(always)]
    pub(crate) fn begin_awaited(&self, call: InCall<'_>, child: &ControlBlock) -> bool {
        if !matches!(child.owner.load(), Owner::Unstarted)
            || !self.next.is_empty()
            || self.alone.get()
            || self.is_hosted()
            || self.has_siblings()
            || !self.budget.lend()
            || !self.stealable().take_back(child.place(), NonNull::from(child))
        {
            return false;
        }
        child.class.set_passed(0);
        self.start(call, child);
        let entry = LifoEntry { fiber: NonNull::from(child), stealable: child.may_move() };
        let displaced = self.next.replace(Some(entry));
        debug_assert!(displaced.is_none(), "only the owner fills the slot");
        true
    }

    /// Prepares the arrival of a fiber in this worker's process: its stack must be guarded here,
    /// and statics must be as the fiber left them.
    #[cold]
    fn cross(&self) {
        let (pool, adopted) = (&self.runtime().pool, self.adopted.get());
        if pool.slabs() != adopted {
            match pool.adopt_after(adopted, true) {
                Ok(adopted) => self.adopted.set(adopted),
                Err(error) => process::no_guards(error),
            }
        }
        process::canary::check(self.index);
    }

    /// Makes `fiber` this worker's own.
    #[inline(always)]
    fn start(&self, call: InCall<'_>, fiber: &ControlBlock) {
        // No other thread uses the state yet. It is set before the owner word names this worker,
        // and once more if an unpark came before.
        fiber.state.reset();
        self.counters.starts.add(1);
        if self.attention.is_traced() {
            self.trace_start(fiber);
        }
        if fiber.flags.take_placed() {
            // Release: pairs with the Acquire in `is_drained`; the start is counted before.
            self.coming.fetch_sub(1, Ordering::Release);
        }
        let early = fiber.owner.start(self);
        if early.contains(Early::UNPARK) {
            let _ = fiber.apply(call, Transition::Unpark);
        }
        if early.contains(Early::CANCEL) || self.is_shutting_down() {
            fiber.must_unwind();
        }
        if !fiber.is_migratable() {
            self.live.store(self.live.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.borrowed.set(self.borrowed.get() + u32::from(!fiber.is_own()));
        } else if !fiber.is_own() {
            self.runtime().lends_to_movers.store(true, Ordering::Relaxed);
        }
    }

    /// Starts a pinned fiber here, that no queue has.
    pub(crate) fn start_here(&self, call: InCall<'_>, fiber: &ControlBlock) {
        self.start(call, fiber);
        // SAFETY: an active fiber that is not running is in one list, this one; it stays in use
        // until it has run.
        unsafe { self.pinned().push(NonNull::from(fiber)) };
    }

    pub(super) fn enqueue_entry(&self, call: InCall<'_>, entry: LifoEntry<ControlBlock>) {
        // SAFETY: a fiber in the LIFO slot is in use.
        self.enqueue(call, unsafe { entry.fiber.as_ref() });
    }

    /// Puts an active fiber of this worker at the end of its queue.
    #[inline]
    pub(crate) fn enqueue(&self, call: InCall<'_>, fiber: &ControlBlock) {
        if fiber.may_move() {
            self.enqueue_stealable(call, fiber);
        } else {
            // SAFETY: an active fiber that is not running is in one list, this one; it stays in use
            // until it has run.
            unsafe { self.pinned().push(NonNull::from(fiber)) };
        }
    }

    /// Puts a fiber at the end of the queue that other workers steal from, and notifies an idle
    /// worker.
    pub(crate) fn enqueue_stealable(&self, call: InCall<'_>, fiber: &ControlBlock) {
        if !self.is_active() {
            return self.runtime().inject_one(call, fiber);
        }
        self.push_stealable(call, fiber);
        self.runtime().work_is_available(call);
    }

    /// Puts a fiber at the end of the queue that other workers steal from. The caller notifies an
    /// idle worker.
    #[inline]
    pub(super) fn push_stealable(&self, call: InCall<'_>, fiber: &ControlBlock) {
        fiber.set_place(self.stealable().next_place());
        // SAFETY: the fiber is in no list, and stays in use until it has run.
        if let Err(full) = unsafe { self.stealable().push(NonNull::from(fiber)) } {
            self.runtime().inject(call, full.0);
        }
    }

    /// Returns the queue of started pinned fibers. Only on this worker's thread, one use at a time.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(super) fn pinned(&self) -> &mut Fifo<ControlBlock> {
        // SAFETY: only the owner's thread calls it, and no caller keeps the reference across
        // another call.
        unsafe { &mut *self.pinned.get() }
    }

    /// Returns the owner's end of the queue that other workers steal from. Only on this worker's
    /// thread.
    #[inline]
    pub(super) fn stealable(&self) -> daiko_core::queue::Local<'_, ControlBlock> {
        // SAFETY: only the owner's thread calls it.
        unsafe { self.ring.local() }
    }

    /// Returns true if a local queue or the LIFO slot has a fiber.
    pub(super) fn has_runnable(&self) -> bool {
        !self.next.is_empty()
            || !self.pinned().is_empty()
            || !self.stealable().is_empty()
            || !self.placed.is_empty()
    }

    /// Returns true if the LIFO slot has a fiber.
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        !self.next.is_empty()
    }

    /// Returns true if a fiber that waits may look for the end of its wait itself, for a short time
    /// and without leaving its stack: if its agent would do nothing but that, and another worker
    /// may end the wait, or a peer that has a CPU of its own.
    ///
    /// It counts as a pick from the LIFO slot: a fiber whose waits all end by looks leaves the
    /// sources and queues as often as a fiber that suspends.
    pub(crate) fn take_look(&self, peer_elsewhere: bool) -> bool {
        let company = Company { elsewhere: peer_elsewhere, here: false };
        !self.has_other_work()
            && (peer_elsewhere || self.runtime().worker_count() > 1)
            && self.guests.get() == 0
            && !self.attention.has_tick()
            && self.runtime().governor.may_spin_for(company)
            && self.budget.take_lifo_credit()
    }

    /// Returns true if there is a fiber to run, or a message that may bring one; also if this
    /// worker is hosted, as its host may have one.
    #[inline]
    pub fn has_other_work(&self) -> bool {
        self.has_runnable() || self.inbox.has_mail() || self.is_hosted()
    }
}
