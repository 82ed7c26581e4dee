//! The timers of fibers that wait on a worker until a deadline.

use std::pin::pin;
use std::ptr::NonNull;

use daiko_core::cancel::ScopeMark;
use daiko_core::fiber::{Effect, Transition};
use daiko_core::list::Unlinked;
use daiko_core::timer::{Timer, Wheel};
use daiko_sys::clock;

use super::mail::{WakeRequest, send};
use super::source::{Round, Source};
use super::state::{Sleeper, Timers, Worker};
use crate::call::{Call, InCall, Item, ItemKind};
use crate::deadline::Deadline;
use crate::fiber::ControlBlock;
use crate::runtime::kernel::ThisThread;

/// The timer of a fiber, in its frame.
pub(crate) type Armed = Timer<Sleeper>;

impl Timers {
    /// Constant, because it is large: it is copied once, not from frame to frame.
    pub(super) const fn new() -> Self {
        Timers(Wheel::new())
    }

    /// Runs `wait`, a suspension of `fiber`, the caller. At `due_ns` on the monotonic clock,
    /// interrupts `fiber`; also returns true if that happened. `wait` must not unwind.
    pub fn during<R>(
        &self,
        call: InCall<'_>,
        fiber: &ControlBlock,
        due_ns: u64,
        wait: impl FnOnce() -> R,
    ) -> (R, bool) {
        let timer = pin!(Timer::new(Sleeper { fiber: NonNull::from(fiber), scope: None }));
        let timer = NonNull::from(&*timer);
        // SAFETY: the timer is new, and stays in place until it is disarmed below: `wait` returns.
        unsafe { self.0.arm(ThisThread::of(call), timer, due_ns) };
        let result = wait();
        // SAFETY: the timer is alive, and was armed in this wheel.
        (result, unsafe { self.end(call, fiber, timer) })
    }

    /// Runs `body`, all that `fiber`, the caller, does in the scope of `mark`. At `due_ns` on the
    /// monotonic clock, ends the scope and interrupts `fiber`. `body` must not unwind.
    pub fn during_scope<R>(
        &self,
        call: &mut Call,
        fiber: &ControlBlock,
        mark: &ScopeMark,
        due_ns: u64,
        body: impl FnOnce(&mut Call) -> R,
    ) -> R {
        let sleeper = Sleeper { fiber: NonNull::from(fiber), scope: Some(NonNull::from(mark)) };
        let timer = pin!(Timer::new(sleeper));
        let timer = NonNull::from(&*timer);
        // SAFETY: the timer is new, and stays in place until it is disarmed below: `body` returns.
        unsafe { self.0.arm(ThisThread::of(call.token()), timer, due_ns) };
        let lent = Item::new(self, timer.as_ptr().cast_const().cast(), &RECOVERY);
        call.add(lent);
        let result = body(call);
        call.remove(lent);
        // SAFETY: the timer is alive, and was armed in this wheel.
        unsafe { self.end(call.token(), fiber, timer) };
        result
    }

    /// Disarms the timer of `fiber`, the caller; returns true if it has fired.
    ///
    /// # Safety
    ///
    /// The timer is alive, and was armed in this wheel.
    unsafe fn end(&self, call: InCall<'_>, fiber: &ControlBlock, timer: NonNull<Armed>) -> bool {
        // SAFETY: by this function's contract.
        let disarmed = unsafe { self.0.disarm(ThisThread::of(call), timer) };
        let fired = disarmed == Unlinked::AlreadyGone;
        if fired {
            // Removes an interrupt that has come after the wake.
            let _ = fiber.apply(call, Transition::Looked);
        }
        fired
    }
}

/// Disarms the timer of a scope after its fiber is lost. The detail is the address of the timer.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, timers, timer| {
        // SAFETY: the items of this kind are valid timers, with the worker's where they are armed.
        let _ = unsafe {
            let timer = NonNull::new_unchecked(timer.cast_mut().cast::<Armed>());
            timers.cast::<Timers>().as_ref().0.disarm(ThisThread::of(call), timer)
        };
    },
};

impl Source for Timers {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        by.fire_timers()
    }

    fn next_due(&self) -> Deadline {
        Deadline::from_ns(self.0.next_due())
    }
}

impl Worker {
    /// Interrupts the fibers that are due; returns true if there were any. Only on this worker.
    pub(super) fn fire_timers(&self) -> bool {
        let Some(due) = self.timers.next_due().ns() else { return false };
        let now = clock::monotonic_ns();
        let call = InCall::agent(self);
        let interrupt = |sleeper| Self::interrupt(call, Some(self), sleeper);
        now >= due && self.timers.0.fire(ThisThread::of(call), now, interrupt) > 0
    }

    /// Interrupts the fibers of this worker that are due. For the monitor, while the worker is
    /// stuck, perhaps in [`fire_timers`](Self::fire_timers).
    pub(crate) fn rescue_sleepers(&self) {
        let call = InCall::agent(self);
        let interrupt = |sleeper| Self::interrupt(call, None, sleeper);
        self.timers.0.try_fire(ThisThread::of(call), clock::monotonic_ns(), interrupt);
    }

    fn interrupt(call: InCall<'_>, me: Option<&Worker>, sleeper: Sleeper) {
        // SAFETY: a fiber goes on, or leaves the scope, only after its timer is disarmed. That
        // needs the lock that is held here.
        let (fiber, scope) =
            unsafe { (sleeper.fiber.as_ref(), sleeper.scope.map(|mark| mark.as_ref())) };
        let interrupt = || {
            match me.filter(|&me| fiber.owner.is(me)) {
                // A migratable fiber that has gone on elsewhere, or the caller is the monitor.
                None => {
                    let _ = send(call, me, fiber, WakeRequest::INTERRUPT);
                }
                Some(me) if fiber.apply(call, Transition::Interrupt) == Effect::Enqueue => {
                    if !me.sent_home(call, fiber) {
                        me.enqueue(call, fiber);
                    }
                }
                Some(_) => {}
            }
        };
        match scope {
            Some(mark) => mark.end(interrupt),
            None => interrupt(),
        }
    }
}
