//! Suspending: the one place where a fiber leaves its stack. The path of `park` and `unpark` comes
//! first.
//!
//! Functions that user code calls are inlined there, up to the switch. A function that returned
//! after the switch would return to a caller other than the caller that the processor has on
//! record. With two callers that yield to each other the mispredicted returns made 8.8 ns into 20.

use std::ptr::{self, NonNull};

use daiko_context::{StackPointer, prefetch_write, seat, switch, switch_own};
use daiko_core::fiber::{ByExchange, Effect, LifoEntry, Plain, Transition};
use daiko_sys::clock;

use super::current::{caller, current, here, not_a_fiber, try_caller};
use super::state::{Departed, Worker};
use crate::call::{Call, InCall};
use crate::deadline::Deadline;
use crate::fiber::{ControlBlock, Lender, unwind};

/// Suspends the calling fiber until [`Fiber::unpark`](crate::Fiber::unpark) is called on it.
///
/// Like [`std::thread::park`]: an earlier unpark lets the park return at once, several unparks
/// count as one, and the caller checks its condition in a loop.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// use std::sync::atomic::{AtomicBool, Ordering};
/// static READY: AtomicBool = AtomicBool::new(false);
///
/// let waiter = daiko::spawn(|| {
///     while !READY.load(Ordering::Acquire) {
///         daiko::park();
///     }
/// });
/// READY.store(true, Ordering::Release);
/// waiter.fiber().unpark();
/// waiter.join().unwrap();
/// # });
/// ```
///
/// # Panics
///
/// If the caller is not a fiber, or is inside [`no_suspend`](crate::no_suspend).
#[inline(always)]
#[track_caller]
pub fn park() {
    let Some((worker, fiber)) = try_caller() else { not_a_fiber("park") };
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    if std::thread::panicking() {
        return park_unwinding(worker, fiber);
    }
    park_from(worker, fiber);
}

/// Parks as [`park`] does, if the caller is a fiber without flags, and its thread does not panic;
/// else returns false at once. It looks for the caller once.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn park_plainly() -> bool {
    match try_caller() {
        Some((worker, fiber)) if !fiber.flags.has_any() && !std::thread::panicking() => {
            park_from(worker, fiber);
            true
        }
        _ => false,
    }
}

#[inline(always)]
fn park_from(worker: &Worker, fiber: &ControlBlock) {
    if depart(worker, fiber, Transition::Park) {
        go(worker, fiber, worker.pick());
    }
    if fiber.flags.has_any() {
        unwind::after_park(fiber);
    }
}

/// Begins a suspension; returns true if the fiber has to leave its stack.
#[inline(always)]
#[must_use]
fn depart(worker: &Worker, fiber: &ControlBlock, event: Transition) -> bool {
    if fiber.is_migratable() {
        return depart_migratable(worker, fiber, event);
    }
    match fiber.state.apply::<Plain>(event) {
        Effect::Suspended => {
            if cfg!(debug_assertions) {
                fiber.exec_mode.suspend();
            }
            return true;
        }
        Effect::Proceed => {}
        come => fiber.found(come),
    }
    false
}

impl Worker {
    /// Returns the next fiber to run, ready to be switched to; `None` leaves the worker to its
    /// agent.
    ///
    /// Budget of a context switch by the LIFO slot: four loads and three stores on the owner's
    /// lines, one load of the fiber's first line, no RMW.
    #[inline]
    pub(super) fn pick(&self) -> Option<&ControlBlock> {
        if self.attention.is_needed() || !self.budget.take_lifo_credit() {
            return self.pick_slow();
        }
        self.pick_at_once()
    }

    /// Picks the next fiber, where no other work comes first.
    #[inline(always)]
    pub(super) fn pick_at_once(&self) -> Option<&ControlBlock> {
        if self.next.is_empty() {
            return self.pick_queued();
        }
        self.pick_next()
    }

    /// Picks the fiber in the LIFO slot; from the queues if a thief has it.
    #[inline(always)]
    pub(super) fn pick_next(&self) -> Option<&ControlBlock> {
        // SAFETY: a queued fiber is in use.
        match self.next.replace(None).map(|entry| unsafe { entry.fiber.as_ref() }) {
            Some(fiber) if fiber.owner.is(self) => Some(fiber),
            Some(fiber) => self.admit(fiber),
            None => self.pick_queued(),
        }
    }
}

/// Notes that `next` runs from now on, or the agent if there is none. Returns where it goes on.
#[inline(always)]
fn begin_run(worker: &Worker, next: Option<&ControlBlock>) -> StackPointer {
    worker.set_running(next);
    let Some(next) = next else { return worker.agent.get() };
    worker.counters.switches.add(1);
    let sp = next.sp.get();
    worker.depth.set(ptr::from_ref(next).addr().wrapping_sub(sp.addr()));
    sp
}

/// Switches from `fiber`, which departs, to `next`, or to the agent if there is none. Does nothing
/// if `fiber` itself is next.
#[inline(always)]
fn go(worker: &Worker, fiber: &ControlBlock, next: Option<&ControlBlock>) {
    let is_next_own = next.is_some_and(ControlBlock::is_own);
    let to = match next {
        Some(next) if ptr::eq(next, fiber) => {
            if cfg!(debug_assertions) {
                fiber.exec_mode.resume();
            }
            return;
        }
        next => begin_run(worker, next),
    };
    // SAFETY: `to` was saved by a switch or prepared for a first one, and is used once: the fiber
    // was in one queue, from which it was just taken, or it is this worker's agent, which only runs
    // when no fiber does. `sp` is this fiber's, which is in no queue that other threads see before
    // `settle`.
    unsafe { switch_from(worker, fiber, to, is_next_own) };
    if fiber.is_migratable() {
        arrive();
        fiber.exec_mode.resume();
    } else {
        if worker.has_departed() {
            worker.settle();
        }
        if cfg!(debug_assertions) {
            fiber.exec_mode.resume();
        }
    }
}

/// Leaves the stack of `fiber` for `to`, a fiber with thread-locals of its own if `is_next_own`.
///
/// # Safety
///
/// As for [`switch`]; `worker` runs `fiber`, which calls.
#[inline(always)]
unsafe fn switch_from(worker: &Worker, fiber: &ControlBlock, to: StackPointer, is_next_own: bool) {
    if !fiber.is_own() {
        // SAFETY: by this function's contract. A borrowed fiber keeps the contract of its kind.
        return unsafe { switch(fiber.sp.as_ptr(), to) };
    }
    // SAFETY: a worker that runs has a seat.
    let seat = unsafe { worker.seat.get().unwrap_unchecked() };
    let lent = if is_next_own { 0 } else { seat.own_thread_pointer() };
    // SAFETY: by this function's contract; the seat has noted the fiber's thread pointer.
    unsafe { switch_own(fiber.sp.as_ptr(), to, seat.thread_pointer(), lent) };
}

impl Worker {
    /// Returns the address where a suspended fiber has probably saved its context, without waiting
    /// for its block: fibers mostly suspend as deep as the fiber that was resumed last.
    #[inline(always)]
    fn likely_sp(&self, fiber: NonNull<ControlBlock>) -> *const u8 {
        fiber.as_ptr().cast_const().cast::<u8>().wrapping_sub(self.depth.get())
    }

    /// Requests the lines of the pinned fiber that comes next in the queue, if there is one, while
    /// `fiber`, which was taken from there, runs. With thousands of fibers they left the caches
    /// after the wake, and lie on pages of their own.
    #[inline(always)]
    pub(super) fn prefetch_behind(&self, fiber: &ControlBlock) {
        let Some(next) = self.pinned().first() else { return };
        prefetch_write(next.as_ptr().cast());
        prefetch_frames(self.likely_sp(next));
        // Probably of the same kind: its block is not read, as that would wait for it.
        if fiber.is_own() && !fiber.is_lent() {
            prefetch_write(ptr::without_provenance(
                self.runtime().pool.thread_pointer(next).addr(),
            ));
        }
    }

    /// Puts a fiber that this worker has made active into the LIFO slot. A fiber that was there
    /// goes to the end of its queue.
    #[inline]
    pub(crate) fn make_next(&self, call: InCall<'_>, fiber: &ControlBlock) {
        self.counters.wakes_local.add(1);
        self.trace_wake(fiber);
        // The block of a lent one does not lie at its stack.
        if fiber.is_lent() {
            prefetch_write(fiber.packet_now());
            prefetch_frames(fiber.recent_sp());
        } else {
            prefetch_frames(self.likely_sp(NonNull::from(fiber)));
        }
        let entry = LifoEntry { fiber: NonNull::from(fiber), stealable: fiber.may_move() };
        if let Some(displaced) = self.next.replace(Some(entry)) {
            self.enqueue_entry(call, displaced);
        }
    }
}

/// Requests the lines of the stack that a resumed fiber pops.
#[inline(always)]
fn prefetch_frames(sp: *const u8) {
    prefetch_write(sp);
    prefetch_write(sp.wrapping_add(64));
    prefetch_write(sp.wrapping_add(128));
}

/// Completes [`park`] on a thread that is panicking. That takes more than a switch, and so a
/// runtime section.
#[cold]
#[inline(never)]
fn park_unwinding(worker: &Worker, fiber: &ControlBlock) {
    let _call = Call::enter();
    unwind::suspends_on_panicking_thread(worker, fiber);
    suspend(worker, fiber, Transition::Park);
    if fiber.flags.has_any() {
        unwind::after_park(fiber);
    }
}

/// Suspends the calling fiber until it is unparked or `deadline` passes, or takes the token.
#[track_caller]
pub(crate) fn park_until(operation: &str, deadline: Deadline) {
    let call = Call::enter();
    let call = call.token();
    let (worker, fiber) = caller(operation);
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    let park = || {
        if std::thread::panicking() {
            unwind::suspends_on_panicking_thread(worker, fiber);
        }
        suspend(worker, fiber, Transition::Park);
    };
    match deadline.ns() {
        None => park(),
        Some(due) if due <= clock::monotonic_ns() => take_token(call, fiber),
        Some(due) => worker.timers.during(call, fiber, due, park).0,
    }
    if fiber.flags.has_any() {
        unwind::after_park(fiber);
    }
}

/// Takes the token of an unpark, if there is one.
fn take_token(call: InCall<'_>, fiber: &ControlBlock) {
    if fiber.state.would_proceed(Transition::Park) {
        let come = fiber.apply(call, Transition::Park);
        fiber.found(come);
    }
}

/// Suspends the calling fiber until the waker ends the wait that the fiber has published.
///
/// A cancel may end it too: then it returns false, and the wait is still published.
#[must_use]
#[inline(never)]
pub(crate) fn wait(_: InCall<'_>, worker: &Worker, fiber: &ControlBlock) -> bool {
    if std::thread::panicking() {
        unwind::suspends_on_panicking_thread(worker, fiber);
    }
    if depart(worker, fiber, Transition::Wait) {
        go(worker, fiber, worker.pick());
    }
    is_woken(fiber)
}

/// Suspends as [`wait`] does, for code that is inlined into user code: only the switch itself is
/// inlined.
#[must_use]
#[inline(always)]
pub(crate) fn wait_inlined(call: InCall<'_>, fiber: &ControlBlock) -> bool {
    if let Some((worker, next)) = depart_to_wait(call, fiber) {
        go(worker, fiber, next);
    }
    is_woken(fiber)
}

#[inline(never)]
fn depart_to_wait(
    _: InCall<'_>,
    fiber: &ControlBlock,
) -> Option<(&'static Worker, Option<&'static ControlBlock>)> {
    let Some(worker) = current() else { unreachable!("a fiber runs on a worker") };
    if std::thread::panicking() {
        unwind::suspends_on_panicking_thread(worker, fiber);
    }
    depart(worker, fiber, Transition::Wait).then(|| (worker, worker.pick()))
}

/// Returns true if the fiber was resumed by its waker, not by a cancel or timer.
#[inline(always)]
fn is_woken(fiber: &ControlBlock) -> bool {
    !fiber.flags.has_any() || unwind::was_woken(fiber)
}

/// The end of a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// Its waker has resumed it.
    Woken,
    /// The deadline has passed.
    TimedOut,
    /// A cancel is due. The wait is still published, as it is after `TimedOut`.
    Cancelled,
}

/// Suspends `fiber`, the caller, until the waker ends the wait that it has published, the deadline
/// passes, or the fiber has to unwind.
pub fn wait_until(call: InCall<'_>, fiber: &ControlBlock, deadline: Deadline) -> Resumed {
    let Some(worker) = current() else { unreachable!("a fiber runs on a worker") };
    wait_from(call, worker, fiber, deadline)
}

/// Suspends as [`wait_until`] does, for a caller that knows its worker. Inlined, as it returns
/// after the switch.
#[inline(always)]
pub fn wait_from(
    call: InCall<'_>,
    worker: &Worker,
    fiber: &ControlBlock,
    deadline: Deadline,
) -> Resumed {
    match deadline.ns() {
        None if wait(call, worker, fiber) => Resumed::Woken,
        None => wait_again(call, fiber),
        Some(due) => wait_timed(call, worker, fiber, due),
    }
}

/// Continues a wait without a deadline after the fiber was resumed by an event other than its
/// waker.
#[cold]
#[inline(never)]
fn wait_again(call: InCall<'_>, fiber: &ControlBlock) -> Resumed {
    loop {
        if unwind::is_due(fiber) {
            return Resumed::Cancelled;
        }
        // Read each time: a migratable fiber may have changed its worker.
        let Some(worker) = current() else { unreachable!("a fiber runs on a worker") };
        if wait(call, worker, fiber) {
            return Resumed::Woken;
        }
    }
}

#[inline(never)]
fn wait_timed(call: InCall<'_>, mut worker: &Worker, fiber: &ControlBlock, due_ns: u64) -> Resumed {
    if due_ns <= clock::monotonic_ns() {
        return Resumed::TimedOut;
    }
    loop {
        let wait = || wait(call, worker, fiber);
        let (woken, timed_out) = worker.timers.during(call, fiber, due_ns, wait);
        if woken {
            return Resumed::Woken;
        }
        if unwind::is_due(fiber) {
            return Resumed::Cancelled;
        }
        if timed_out {
            return Resumed::TimedOut;
        }
        // Read again: a migratable fiber may have changed its worker.
        let Some(here) = current() else { unreachable!("a fiber runs on a worker") };
        worker = here;
    }
}

/// Suspends `fiber`, the caller, until the wake that is on its way, regardless of cancels and
/// timers.
pub fn absorb_wake(call: InCall<'_>, fiber: &ControlBlock) {
    loop {
        // Read each time: a migratable fiber may have changed its worker.
        let Some(worker) = current() else { unreachable!("a fiber runs on a worker") };
        if wait(call, worker, fiber) {
            return;
        }
    }
}

/// Lets other runnable fibers of this worker run before the caller goes on.
///
/// # Panics
///
/// If the caller is not a fiber, or is inside [`no_suspend`](crate::no_suspend).
#[inline(always)]
#[track_caller]
pub fn yield_now() {
    let Some((worker, fiber)) = try_caller() else { not_a_fiber("yield_now") };
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    if std::thread::panicking() {
        return yield_unwinding(worker, fiber);
    }
    yield_to_others(worker, fiber);
}

/// Completes [`yield_now`] on a thread that is panicking. That takes more than a switch, and so a
/// runtime section.
#[cold]
#[inline(never)]
fn yield_unwinding(worker: &Worker, fiber: &ControlBlock) {
    let _call = Call::enter();
    unwind::suspends_on_panicking_thread(worker, fiber);
    yield_to_others(worker, fiber);
}

#[inline(always)]
fn yield_to_others(worker: &Worker, fiber: &ControlBlock) {
    if fiber.may_move() {
        fiber.exec_mode.suspend();
        worker.departed.set(Departed::Yielding(NonNull::from(fiber)));
    } else {
        // SAFETY: a running fiber is in no list, and stays in use until it has run.
        unsafe { worker.pinned().push(NonNull::from(fiber)) };
    }
    leave(worker, fiber);
    if fiber.flags.has_any() {
        unwind::after_yield(fiber);
    }
}

/// Ends the calling fiber. Its stack is not used any more.
#[inline(always)]
pub(crate) fn finish(worker: &Worker, fiber: &ControlBlock) -> ! {
    fiber.owner.finish(worker);
    worker.departed.set(Departed::Finished(NonNull::from(fiber)));
    // SAFETY: a finished fiber is in no queue.
    unsafe { daiko_context::ends() };
    leave(worker, fiber);
    unreachable!("a finished fiber was resumed")
}

/// Ends the calling fiber, which is lost, or makes it begin anew, once neither its stack nor the
/// borrowed `stack` is used any more.
///
/// # Safety
///
/// If it begins `anew`: as for [`ControlBlock::prepare_anew`]. If there is a `stack`, the fiber has
/// borrowed it and runs on it.
pub(crate) unsafe fn finish_as_lost(
    worker: &Worker,
    fiber: &ControlBlock,
    stack: Option<NonNull<ControlBlock>>,
    anew: bool,
) -> ! {
    if !anew {
        fiber.owner.finish(worker);
    }
    worker.departed.set(Departed::Lost { fiber: NonNull::from(fiber), stack, anew });
    // SAFETY: the fiber never goes on in these frames.
    unsafe { daiko_context::ends() };
    leave(worker, fiber);
    unreachable!("a fiber that is lost was resumed where it had left off")
}

#[inline(always)]
fn suspend(worker: &Worker, fiber: &ControlBlock, event: Transition) {
    if depart(worker, fiber, event) {
        go(worker, fiber, worker.pick());
    }
}

/// Suspends a migratable fiber. Another worker may resume it as soon as its state says suspended.
/// So that state is written off its stack, by the fiber or agent that runs next.
fn depart_migratable(worker: &Worker, fiber: &ControlBlock, event: Transition) -> bool {
    if fiber.state.would_proceed(event) {
        fiber.found(fiber.state.apply::<ByExchange>(event));
        return false;
    }
    fiber.exec_mode.suspend();
    // Read now: off its stack the fiber may be another worker's, and its flags with it.
    let cancelled = fiber.flags.is_cancelled();
    worker.departed.set(Departed::Suspending { fiber: NonNull::from(fiber), event, cancelled });
    true
}

/// Leaves the stack of `fiber`, the caller, which is in a queue or has ended.
#[inline(always)]
fn leave(worker: &Worker, fiber: &ControlBlock) {
    if cfg!(debug_assertions) {
        fiber.exec_mode.suspend();
    }
    go(worker, fiber, worker.pick());
}

/// Ends the calling fiber, a context that `lender` has lent. Returns on the kernel thread of
/// `lender`.
///
/// # Safety
///
/// `lender` has lent the context, and lives until it has come home.
pub(crate) unsafe fn go_home(worker: &Worker, fiber: &ControlBlock, lender: NonNull<Lender>) {
    fiber.owner.finish(worker);
    worker.departed.set(Departed::GoesHome { fiber: NonNull::from(fiber), lender });
    let next = worker.pick();
    let to = begin_run(worker, next);
    // SAFETY: as in `go`. At home the context needs no seat, so the switch is a plain one; it runs
    // under the thread pointer that the next context expects.
    unsafe {
        if !next.is_some_and(ControlBlock::is_own) {
            seat::resume_own_thread_pointer();
        }
        switch(fiber.sp.as_ptr(), to);
    }
}

/// Does the first work on any stack after a switch to it.
#[inline(always)]
pub(crate) fn arrive() {
    // Read again: a migratable fiber may be on another worker than before.
    // SAFETY: only workers switch to stacks.
    let worker = unsafe { here() };
    if worker.has_departed() {
        worker.settle();
    }
}

impl Worker {
    /// Switches from the agent to `fiber`; returns when a fiber finds nothing runnable.
    pub(super) fn resume(&self, fiber: &ControlBlock) {
        self.set_running(Some(fiber));
        self.counters.switches.add(1);
        // SAFETY: as in `go`; `agent` is this worker's own.
        unsafe { switch(self.agent.as_ptr(), fiber.sp.get()) };
        if self.has_departed() {
            self.settle();
        }
    }
}
