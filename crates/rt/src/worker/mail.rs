//! Messages between workers: the cost of a wake if the fiber belongs to another worker.

use std::ptr::{self, NonNull};

use daiko_context::prefetch_write;
use daiko_core::barrier::Barrier;
use daiko_core::fiber::{Early, Effect, Messages, Owner, Posted, Pushed, Transition};
use daiko_sys::policy;

use super::Worker;
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::fiber::ControlBlock;
use crate::runtime::kernel::ThisThread;

/// A request to a fiber: the event, the message that carries it to a worker, and the token that it
/// leaves before the start.
#[derive(Clone, Copy)]
pub struct WakeRequest {
    pub(crate) event: Transition,
    pub(crate) message: Messages,
    early: Early,
}

impl WakeRequest {
    pub(crate) const UNPARK: WakeRequest =
        WakeRequest { event: Transition::Unpark, message: Messages::UNPARK, early: Early::UNPARK };
    /// Never sent before the start: only a running fiber can wait.
    pub(crate) const WAKE: WakeRequest =
        WakeRequest { event: Transition::Wake, message: Messages::WAKE, early: Early::NONE };
    pub(crate) const CANCEL: WakeRequest =
        WakeRequest { event: Transition::Cancel, message: Messages::CANCEL, early: Early::CANCEL };
    /// Never sent before the start: only a running fiber can be in a scope.
    pub const INTERRUPT: WakeRequest = WakeRequest {
        event: Transition::Interrupt,
        message: Messages::INTERRUPT,
        early: Early::NONE,
    };
}

/// Delivers `request` to a fiber of another worker, or from a thread that is no worker.
///
/// Returns the fiber's worker if it is pinned there.
#[inline(never)]
pub fn send<'f>(
    call: InCall<'_>,
    from: Option<&Worker>,
    fiber: &'f ControlBlock,
    request: WakeRequest,
) -> Option<&'f Worker> {
    loop {
        match fiber.owner.load() {
            Owner::Finished(_) => return None,
            Owner::Unstarted if fiber.owner.leave_early(request.early) => return None,
            Owner::Unstarted => {}
            Owner::Worker(owner) => {
                if fiber.is_migratable() {
                    send_migratable(call, from, fiber, request.event);
                    return None;
                }
                // SAFETY: workers live as long as their runtime, and the runtime as long as its
                // fibers.
                let owner = unsafe { &*owner };
                if request.message.fits_inline() {
                    mail_pinned(call, from, owner, fiber, request.message);
                } else {
                    push_message(call, from, owner, fiber, request.message);
                }
                return Some(owner);
            }
        }
    }
}

/// Sends a message to a fiber that is pinned to `owner`.
///
/// Budget: one RMW, on the inbox of its worker. If the inbox is not empty, one more on the fiber's
/// line, and a second one on the inbox unless the fiber has messages. Both lines come from that
/// worker.
#[inline(never)]
pub fn mail_pinned(
    call: InCall<'_>,
    from: Option<&Worker>,
    owner: &Worker,
    fiber: &ControlBlock,
    message: Messages,
) {
    if let Some(from) = from {
        from.trace_wake(fiber);
    }
    // SAFETY: a fiber that is owed a wake waits for it; a fiber that may get an unpark from a
    // handle that knows its worker is freed after that message. The worker outlives its fibers, and
    // does not end before the token that is owed to it is stored. The message fits inline: the
    // callers send an unpark, or have checked that.
    if let Some(pushed) = unsafe { owner.inbox.push_inline(NonNull::from(fiber), message) } {
        return owner.finish_delivery(from, pushed);
    }
    push_message(call, from, owner, fiber, message);
}

/// Sends a message as [`mail_pinned`] does, by the fiber's own message word: one RMW on its line,
/// and one on the inbox unless the fiber has messages.
#[inline]
fn push_message(
    call: InCall<'_>,
    from: Option<&Worker>,
    owner: &Worker,
    fiber: &ControlBlock,
    message: Messages,
) {
    // The fiber's line travels while earlier stores, which the message announces, still do. The
    // inbox's line is not prefetched: its owner, which polls it, would have it back before the
    // push.
    prefetch_write(ptr::from_ref(fiber).cast());
    if fiber.mail.post(message) == Posted::Push {
        owner.deliver(call, from, fiber);
    }
}

fn send_migratable(
    call: InCall<'_>,
    from: Option<&Worker>,
    fiber: &ControlBlock,
    event: Transition,
) {
    if fiber.apply(call, event) == Effect::Enqueue {
        put_migratable(call, from, fiber);
    }
}

/// Ends the wait of a migratable fiber, which the caller has claimed, and puts it on the worker
/// that `place` chooses, given the index of the worker where it ran last.
pub fn wake_migratable(
    call: InCall<'_>,
    from: &Worker,
    fiber: &ControlBlock,
    place: impl FnOnce(u16) -> u16,
) {
    if fiber.apply(call, Transition::Wake) != Effect::Enqueue {
        return;
    }
    let (runtime, owner) = (from.runtime(), home(fiber));
    let is_placed = owner.is_of(runtime) && (owner.index as usize) < runtime.worker_count();
    if !is_placed || !fiber.may_move() || !owner.accepts_fibers() {
        return put_migratable(call, Some(from), fiber);
    }
    let target = &runtime.workers()[usize::from(place(owner.index as u16))];
    if ptr::eq(target, from) {
        from.make_next(call, fiber);
    } else {
        from.trace_wake(fiber);
        let _ = fiber.mail.post(Messages::RUN);
        target.deliver(call, Some(from), fiber);
    }
}

/// Puts a migratable fiber, which the caller has made active, where it goes by default.
fn put_migratable(call: InCall<'_>, from: Option<&Worker>, fiber: &ControlBlock) {
    // The thread that made the fiber active has it alone, so its message word is free.
    let owner = home(fiber);
    match from.filter(|from| from.runtime == owner.runtime) {
        Some(from) if from.will_suspend() && fiber.may_move() => from.make_next(call, fiber),
        Some(from) if fiber.may_move() && !owner.accepts_fibers() => {
            from.trace_wake(fiber);
            from.enqueue_stealable(call, fiber)
        }
        None if fiber.may_move() && !owner.accepts_fibers() => {
            owner.runtime().inject_one(call, fiber)
        }
        from => {
            if let Some(from) = from {
                from.trace_wake(fiber);
            }
            let _ = fiber.mail.post(Messages::RUN);
            owner.deliver(call, from, fiber);
        }
    }
}

/// Returns the worker of `fiber`, a migratable fiber that the caller has made active. Before that
/// it might have gone on to another worker.
fn home(fiber: &ControlBlock) -> &Worker {
    let Owner::Worker(home) = fiber.owner.load() else { unreachable!("it was suspended") };
    // SAFETY: workers live as long as their runtime, and the runtime as long as its fibers.
    unsafe { &*home }
}

impl Worker {
    /// Sends a fiber that this worker has made active to the worker where it has to stay. Returns
    /// false if that is this worker.
    ///
    /// The fiber was this worker's when the caller looked. Before the caller made it active, a
    /// migratable fiber may have gone on elsewhere, and have begun to unwind.
    #[inline]
    pub(crate) fn sent_home(&self, call: InCall<'_>, fiber: &ControlBlock) -> bool {
        fiber.is_migratable() && !fiber.may_move() && self.sent_home_slow(call, fiber)
    }

    #[cold]
    fn sent_home_slow(&self, call: InCall<'_>, fiber: &ControlBlock) -> bool {
        let home = home(fiber);
        let elsewhere = !ptr::eq(home, self);
        if elsewhere {
            let _ = fiber.mail.post(Messages::RUN);
            home.deliver(call, Some(self), fiber);
        }
        elsewhere
    }

    /// Puts a fiber with messages into this worker's inbox, and unparks the worker if it is parked.
    pub(crate) fn deliver(&self, call: InCall<'_>, from: Option<&Worker>, fiber: &ControlBlock) {
        // SAFETY: the caller posted the first message, or took the fiber out of the inbox and left
        // its messages alone; they keep it in use.
        match unsafe { self.inbox.push(NonNull::from(fiber)) } {
            Pushed::Closed => self.discard_messages(call, fiber),
            pushed => self.finish_delivery(from, pushed),
        }
    }

    fn finish_delivery(&self, from: Option<&Worker>, pushed: Pushed) {
        if let Some(from) = from {
            from.counters.mails_sent.add(1);
            from.note_addressee(self);
        }
        if pushed == Pushed::OwnerParked {
            self.wake(from);
        }
    }

    /// Ends the sleep of this worker, whose parked mark the caller has taken; or runs it instead,
    /// if it stands by.
    #[inline]
    fn wake(&self, from: Option<&Worker>) {
        if !from.is_some_and(|from| from.takes_guest(self)) {
            self.unpark_thread(from);
        }
    }

    /// Discards the messages to a fiber of this worker, which has ended.
    pub(super) fn discard_messages(&self, call: InCall<'_>, fiber: &ControlBlock) {
        if fiber.mail.collect().contains(Messages::FREE) {
            fiber.free_now(call);
        }
    }

    /// Returns true if the code that wakes a fiber here will leave the worker to it: the agent
    /// does.
    pub fn will_suspend(&self) -> bool {
        self.running().is_none()
    }

    /// Takes all messages and acts on them.
    pub(crate) fn read_mail(&self) {
        let call = InCall::agent(self);
        for (fiber, inline) in self.inbox.take() {
            self.counters.mails_received.add(1);
            // SAFETY: messages keep the fiber in use; a fiber with an inline message waits, or is
            // freed after that message.
            let fiber = unsafe { fiber.as_ref() };
            self.read_messages(call, fiber, inline.unwrap_or_else(|| fiber.mail.collect()));
        }
    }

    /// Hands the fibers of this worker, which is stuck, to other workers: migratable fibers in the
    /// LIFO slot and the inbox, and fibers that were placed here and have not started. Returns the
    /// number of fibers that were put back into the inbox. Only for the monitor. If the owner goes
    /// on at this moment, the monitor and the owner get different fibers.
    pub(crate) fn rescue_fibers(&self) -> u32 {
        let call = InCall::agent(self);
        let mut given_back = 0;
        for fiber in self.placed.pop_batch(ThisThread::of(call), usize::MAX) {
            // SAFETY: a queued fiber is in use.
            self.take_back(call, unsafe { fiber.as_ref() });
        }
        // The LIFO slot is emptied at once: a thief that polls rarely may never see it unchanged
        // twice.
        if self.next.peek().is_some()
            && let Some(fiber) =
                self.next.steal(ThisThread::of(call), || self.runtime().barriers.heavy())
        {
            // SAFETY: a queued fiber is in use.
            self.runtime().inject_one(call, unsafe { fiber.as_ref() });
        }
        for (fiber, inline) in self.inbox.take_from() {
            // SAFETY: messages keep the fiber in use; of a fiber with an inline message, that
            // message is in hand.
            let fiber = unsafe { fiber.as_ref() };
            if let Some(messages) = inline {
                // Posted to the message word, so that the thread that frees the fiber sees it.
                if fiber.mail.post(messages) == Posted::Push {
                    self.deliver(call, None, fiber);
                }
                continue;
            }
            let messages = fiber.mail.peek();
            if messages.contains(Messages::RUN) && fiber.may_move() {
                let _ = fiber.mail.collect();
                self.runtime().inject_one(call, fiber);
            } else if messages.contains(Messages::MAY_LEAVE) {
                let _ = fiber.mail.collect();
                self.take_back(call, fiber);
            } else {
                // With its messages, which keep it in use: otherwise it could end and be freed
                // right now.
                self.deliver(call, None, fiber);
                given_back += 1;
            }
        }
        given_back
    }

    /// Starts the oldest fiber that placement has sent here.
    #[inline(never)]
    pub(super) fn start_placed(&self) -> Option<&ControlBlock> {
        let fiber = self.placed.pop(ThisThread::of(InCall::agent(self)))?;
        // SAFETY: a queued fiber is in use.
        self.admit(unsafe { fiber.as_ref() })
    }

    /// Lets any worker start a fiber that was placed here. The caller has the fiber alone.
    pub(super) fn take_back(&self, call: InCall<'_>, fiber: &ControlBlock) {
        let was_placed = fiber.flags.take_placed();
        debug_assert!(was_placed);
        self.runtime().inject_one(call, fiber);
        // Release: pairs with the Acquire in `is_drained`; the fiber is queued before.
        self.coming.fetch_sub(1, Ordering::Release);
    }

    /// Frees the fiber after all inline messages to it. This worker, where the fiber ended, does so
    /// if there may be any.
    pub(crate) fn free_after_inline(&self, call: InCall<'_>, fiber: &ControlBlock) {
        if self.inbox.is_settled() {
            fiber.free_behind_mail(call);
        } else if fiber.mail.post(Messages::FREE) == Posted::Push {
            self.deliver(call, None, fiber);
        }
    }

    /// Queues a fiber that this worker is to start: where the monitor finds it, if it may leave.
    fn queue_start(&self, call: InCall<'_>, fiber: &ControlBlock, messages: Messages) {
        let start = NonNull::from(fiber);
        if messages.contains(Messages::MAY_LEAVE) {
            self.budget.cut_run();
            // SAFETY: an unstarted fiber is in no other list, and stays in use until it has run.
            unsafe { self.placed.push(ThisThread::of(call), start) };
        } else {
            // SAFETY: as above.
            unsafe { self.pinned().push(start) };
        }
    }

    fn read_messages(&self, call: InCall<'_>, fiber: &ControlBlock, messages: Messages) {
        if messages.contains(Messages::FREE) {
            if !self.inbox.is_in_hand() {
                return fiber.free_behind_mail(call);
            }
            // Sends the message once more: an inline message to the fiber may be about to come
            // back, once the monitor can run.
            policy::give_way();
            return self.free_after_inline(call, fiber);
        }
        if messages.contains(Messages::START) {
            return self.queue_start(call, fiber, messages);
        }
        if messages.contains(Messages::RUN) {
            return self.enqueue_received(call, fiber);
        }
        if !fiber.owner.is(self) {
            return; // It has finished.
        }
        let mut runnable = false;
        for WakeRequest { event, message, .. } in
            [WakeRequest::WAKE, WakeRequest::UNPARK, WakeRequest::CANCEL, WakeRequest::INTERRUPT]
        {
            runnable |= messages.contains(message) && fiber.apply(call, event) == Effect::Enqueue;
        }
        if runnable {
            self.enqueue(call, fiber);
        }
    }

    /// Queues an active fiber that a message has brought. An agent without another fiber runs it at
    /// once: no thief is woken for it.
    fn enqueue_received(&self, call: InCall<'_>, fiber: &ControlBlock) {
        let is_next = self.will_suspend() && self.is_active() && !self.has_runnable();
        if is_next && fiber.may_move() {
            self.push_stealable(call, fiber);
        } else {
            self.enqueue(call, fiber);
        }
    }
}
