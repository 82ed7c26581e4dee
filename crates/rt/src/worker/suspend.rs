//! Suspending: the one place where a fiber leaves its stack.
//!
//! Functions that user code calls are inlined there, up to the switch. A function that returned
//! after the switch would return to another fiber's caller than the one that the processor has on
//! record. With two callers that yield to each other the mispredicted returns made 8.8 ns into 20.

use std::ptr::NonNull;

use daiko_context::{StackPointer, switch};
use daiko_core::fiber::{Effect, Event, Plain, Shared};
use daiko_sys::clock;

use super::current::caller;
use super::current::current;
use super::state::{Departed, Worker};
use crate::atomic::Ordering;
use crate::deadline::Deadline;
use crate::fiber::{ControlBlock, flag, unwind};
use crate::process;

/// Suspends the calling fiber until it is unparked, or takes the token.
#[inline(always)]
#[track_caller]
pub(crate) fn park() {
    let (worker, fiber) = caller("park");
    if fiber.flags.get() != 0 {
        unwind::before_suspension(fiber);
    }
    if std::thread::panicking() {
        return park_unwinding(worker, fiber);
    }
    suspend(worker, fiber, Event::Park);
    if fiber.flags.get() != 0 {
        unwind::after_park(fiber);
    }
}

/// Completes [`park`] on a thread that is panicking. That takes more than a switch, and so a
/// runtime section.
#[cold]
#[inline(never)]
fn park_unwinding(worker: &Worker, fiber: &ControlBlock) {
    let _call = process::call();
    unwind::suspends_on_panicking_thread(worker, fiber);
    suspend(worker, fiber, Event::Park);
    if fiber.flags.get() != 0 {
        unwind::after_park(fiber);
    }
}

/// Suspends the calling fiber until it is unparked or `deadline` passes, or takes the token.
#[track_caller]
pub(crate) fn park_until(what: &str, deadline: Deadline) {
    let _call = process::call();
    let (worker, fiber) = caller(what);
    if fiber.flags.get() != 0 {
        unwind::before_suspension(fiber);
    }
    let park = || {
        note_unwinding(worker, fiber);
        suspend(worker, fiber, Event::Park);
    };
    match deadline.ns() {
        None => park(),
        Some(due) if due <= clock::monotonic_ns() => take_token(fiber),
        Some(due) => worker.timers.during(fiber, None, due, park).0,
    }
    if fiber.flags.get() != 0 {
        unwind::after_park(fiber);
    }
}

/// Takes the token of an unpark, if there is one.
fn take_token(fiber: &ControlBlock) {
    if fiber.state.would_proceed(Event::Park) {
        let come = fiber.apply(Event::Park);
        fiber.found(come);
    }
}

/// Suspends the calling fiber until the waker ends the wait that the fiber has published.
///
/// A cancel may end it too: then it returns false, and the wait is still published.
#[must_use]
#[inline(never)]
pub(crate) fn wait(worker: &Worker, fiber: &ControlBlock) -> bool {
    note_unwinding(worker, fiber);
    suspend(worker, fiber, Event::Wait);
    is_woken(fiber)
}

/// Suspends as [`wait`] does, for code that is inlined into user code: only the switch itself is
/// inlined.
#[must_use]
#[inline(always)]
pub(crate) fn wait_inlined(fiber: &ControlBlock) -> bool {
    if let Some((worker, to)) = depart_to_wait(fiber) {
        go(worker, fiber, to);
    }
    is_woken(fiber)
}

#[inline(never)]
fn depart_to_wait(fiber: &ControlBlock) -> Option<(&'static Worker, StackPointer)> {
    let Some(worker) = current() else { unreachable!("a fiber runs on a worker") };
    note_unwinding(worker, fiber);
    let to = depart(worker, fiber, Event::Wait)?;
    Some((worker, to))
}

/// Returns true if the fiber was resumed by its waker, not by a cancel or timer.
#[inline(always)]
fn is_woken(fiber: &ControlBlock) -> bool {
    fiber.flags.get() == 0 || unwind::was_woken(fiber)
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
pub fn wait_until(fiber: &ControlBlock, deadline: Deadline) -> Resumed {
    let Some(worker) = current() else { unreachable!("a fiber runs on a worker") };
    wait_from(worker, fiber, deadline)
}

/// Suspends as [`wait_until`] does, for a caller that knows its worker. Inlined, as it returns
/// after the switch.
#[inline(always)]
pub fn wait_from(mut worker: &'static Worker, fiber: &ControlBlock, deadline: Deadline) -> Resumed {
    if deadline.ns().is_some_and(|due| due <= clock::monotonic_ns()) {
        return Resumed::TimedOut;
    }
    loop {
        let (woken, timed_out) = match deadline.ns() {
            None => (wait(worker, fiber), false),
            Some(due) => worker.timers.during(fiber, None, due, || wait(worker, fiber)),
        };
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
pub fn absorb_wake(fiber: &ControlBlock) {
    loop {
        // Read each time: a migratable fiber may have changed its worker.
        let Some(worker) = current() else { unreachable!("a fiber runs on a worker") };
        if wait(worker, fiber) {
            return;
        }
    }
}

/// Puts the calling fiber at the end of its queue and runs another, if there is one.
#[inline(always)]
#[track_caller]
pub(crate) fn yield_now() {
    let (worker, fiber) = caller("yield_now");
    if fiber.flags.get() != 0 {
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
    let _call = process::call();
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
    if fiber.flags.get() != 0 {
        unwind::after_yield(fiber);
    }
}

/// Ends the calling fiber. Its stack is not used any more.
#[inline(always)]
pub(crate) fn finish(worker: &Worker, fiber: &ControlBlock) -> ! {
    fiber.owner.finish(worker);
    worker.departed.set(Departed::Finished(NonNull::from(fiber)));
    leave(worker, fiber);
    unreachable!("a finished fiber was resumed")
}

/// Notes that the calling fiber suspends while it unwinds, if it does.
#[inline(always)]
fn note_unwinding(worker: &Worker, fiber: &ControlBlock) {
    if std::thread::panicking() {
        unwind::suspends_on_panicking_thread(worker, fiber);
    }
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
    leave(worker, fiber);
    unreachable!("a fiber that is lost was resumed where it had left off")
}

#[inline(always)]
fn suspend(worker: &Worker, fiber: &ControlBlock, event: Event) {
    if let Some(to) = depart(worker, fiber, event) {
        go(worker, fiber, to);
    }
}

/// Suspends the calling fiber, except for the switch. Returns the stack to switch to; `None` if the
/// fiber goes on.
#[inline(always)]
fn depart(worker: &Worker, fiber: &ControlBlock, event: Event) -> Option<StackPointer> {
    if fiber.is_migratable() {
        return depart_migratable(worker, fiber, event);
    }
    match fiber.state.apply::<Plain>(event) {
        Effect::Suspended => return next_after(worker, fiber),
        Effect::Proceed => {}
        come => fiber.found(come),
    }
    None
}

/// Suspends a migratable fiber. Another worker may resume it as soon as its state says suspended.
/// So that state is written off its stack, by the fiber or agent that runs next.
fn depart_migratable(worker: &Worker, fiber: &ControlBlock, event: Event) -> Option<StackPointer> {
    if fiber.state.would_proceed(event) {
        fiber.found(fiber.state.apply::<Shared>(event));
        return None;
    }
    fiber.exec_mode.suspend();
    // Read now: off its stack the fiber may be another worker's, and its flags with it.
    let cancelled = fiber.flags.get() & flag::CANCEL != 0;
    worker.departed.set(Departed::Suspending { fiber: NonNull::from(fiber), event, cancelled });
    next_after(worker, fiber)
}

/// Switches to the fiber or agent that comes next.
#[inline(always)]
fn leave(worker: &Worker, fiber: &ControlBlock) {
    if let Some(to) = next_after(worker, fiber) {
        go(worker, fiber, to);
    }
}

/// Chooses a fiber, or else the agent, and makes it the one that runs from here on. Returns its
/// stack pointer; `None` if it is `fiber` itself.
#[inline(always)]
fn next_after(worker: &Worker, fiber: &ControlBlock) -> Option<StackPointer> {
    if cfg!(debug_assertions) {
        fiber.exec_mode.suspend();
    }
    match worker.pick() {
        Some(next) if std::ptr::eq(next, fiber) => {
            if cfg!(debug_assertions) {
                fiber.exec_mode.resume();
            }
            None
        }
        Some(next) => {
            worker.set_running(Some(next));
            worker.counters.switches.add(1);
            let sp = next.sp.get();
            worker.depth.set(std::ptr::from_ref(next).addr().wrapping_sub(sp.addr()));
            Some(sp)
        }
        None => {
            worker.set_running(None);
            Some(worker.agent.get())
        }
    }
}

/// Switches from `fiber`, which departs, to the stack that `next_after` returned.
#[inline(always)]
fn go(worker: &Worker, fiber: &ControlBlock, to: StackPointer) {
    // SAFETY: `to` was saved by a switch or prepared for a first one, and is used once: the fiber
    // was in one queue, from which it was just taken, or it is this worker's agent, which only runs
    // when no fiber does. `sp` is this fiber's, which is in no queue that other threads see before
    // `settle`.
    unsafe { switch(fiber.sp.as_ptr(), to) };
    if fiber.is_migratable() {
        arrive();
        fiber.exec_mode.resume();
    } else {
        worker.settle();
        if cfg!(debug_assertions) {
            fiber.exec_mode.resume();
        }
    }
}

/// Does the first work on any stack after a switch to it.
#[inline(always)]
pub(crate) fn arrive() {
    // Read again: a migratable fiber may be on another worker than before.
    if let Some(worker) = current() {
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
        self.settle();
    }

    /// Does the work that is left for the fiber that has just left its stack.
    #[inline]
    pub(super) fn settle(&self) {
        if !matches!(self.departed.get(), Departed::None) {
            self.settle_slow();
        }
    }

    fn settle_slow(&self) {
        match self.departed.replace(Departed::None) {
            Departed::None => {}
            Departed::Suspending { fiber, event, cancelled } => {
                // SAFETY: a fiber that has not finished is in use.
                let fiber = unsafe { fiber.as_ref() };
                let goes_on = match fiber.state.apply::<Shared>(event) {
                    Effect::Suspended => !cancelled && self.cancel_migratable(fiber),
                    come => {
                        fiber.found(come);
                        true
                    }
                };
                if goes_on {
                    self.enqueue(fiber);
                }
            }
            Departed::Yielding(fiber) => {
                // SAFETY: as above.
                let fiber = unsafe { fiber.as_ref() };
                if fiber.state.is_cancelled() || self.is_shutting_down() {
                    fiber.must_unwind();
                }
                self.enqueue(fiber);
            }
            Departed::Lost { fiber, stack, anew } => {
                // SAFETY: a block is never unmapped, and no thread is on either stack any more.
                unsafe {
                    stack.inspect(|stack| stack.as_ref().free_now());
                    if anew { self.begin_anew(fiber.as_ref()) } else { self.bury(fiber.as_ref()) }
                }
            }
            // SAFETY: the fiber's own reference keeps it until here.
            Departed::Finished(fiber) => self.bury(unsafe { fiber.as_ref() }),
        }
    }

    /// Cancels a migratable fiber that has suspended during the shutdown; returns true if that made
    /// it active.
    fn cancel_migratable(&self, fiber: &ControlBlock) -> bool {
        self.is_shutting_down() && fiber.apply(Event::Cancel) == Effect::Enqueue
    }

    fn bury(&self, fiber: &ControlBlock) {
        if !fiber.is_migratable() {
            self.live.store(self.live.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        }
        fiber.release();
        self.counters.ends.add(1);
    }
}
