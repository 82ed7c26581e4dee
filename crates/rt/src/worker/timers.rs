//! The timers of the fibers that wait on a worker until a time.

use std::pin::pin;
use std::ptr::NonNull;

use daiko_core::cancel::Mark;
use daiko_core::fiber::{Effect, Event};
use daiko_core::list::Unlinked;
use daiko_core::timer::{Timer, Wheel};
use daiko_sys::clock;

use super::{Round, Source, Wish, Worker, send};
use crate::fiber::ControlBlock;
use crate::process::{self, Item, ItemKind};
use crate::runtime::kernel::ThisThread;
use crate::wait::Deadline;

/// The fiber whose suspension a timer ends, and the scope, if it is that which ends.
#[derive(Clone, Copy)]
pub(crate) struct Sleeper {
    fiber: NonNull<ControlBlock>,
    scope: Option<NonNull<Mark>>,
}

// SAFETY: an interrupt may come from any thread that polls for the fiber's worker.
unsafe impl Send for Sleeper {}

/// The timer of a fiber, in its frame.
pub(crate) type Armed = Timer<Sleeper>;

/// A worker's timers. Armed and fired by it; a mover disarms its own from wherever it is.
pub struct Timers(Wheel<Sleeper>);

impl Timers {
    /// Constant, as it is large: so it is copied once, not from frame to frame.
    pub(super) const fn new() -> Self {
        Timers(Wheel::new())
    }

    /// Runs `wait`, a suspension of `fiber`, the caller, or all that it does in a scope; at `due_ns` on the
    /// monotonic clock that scope ends, and `fiber` is interrupted; whether it was. `wait` must not unwind.
    pub fn during<R>(
        &self,
        fiber: &ControlBlock,
        scope: Option<&Mark>,
        due_ns: u64,
        wait: impl FnOnce() -> R,
    ) -> (R, bool) {
        let sleeper = Sleeper { fiber: NonNull::from(fiber), scope: scope.map(NonNull::from) };
        let timer = pin!(Timer::new(sleeper));
        let timer = NonNull::from(&*timer);
        // SAFETY: the timer is new, and stays where it is until it is disarmed below: `wait` returns.
        unsafe { self.0.arm(&ThisThread, timer, due_ns) };
        let lent = scope.map(|_| Item::new(self, timer.as_ptr().cast_const().cast(), &RECOVERY));
        if let Some(lent) = lent {
            process::call().gains(lent);
        }
        let result = wait();
        if let Some(lent) = lent {
            process::call().parts_with(lent);
        }
        // SAFETY: alive, and armed here.
        let disarmed = unsafe { self.0.disarm(&ThisThread, timer) };
        let fired = disarmed == Unlinked::AlreadyGone;
        if fired {
            // It may have come after the wake.
            let _ = fiber.apply(Event::Looked);
        }
        (result, fired)
    }
}

/// Disarms the timer of a scope whose fiber is lost. The detail is the address of the timer.
static RECOVERY: ItemKind = ItemKind {
    recover: |timers, timer, _| {
        // SAFETY: the items of this kind are valid timers, with the worker's where they are armed.
        let _ = unsafe {
            let timer = NonNull::new_unchecked(timer.cast_mut().cast::<Armed>());
            timers.cast::<Timers>().as_ref().0.disarm(&ThisThread, timer)
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
    /// Interrupts the fibers whose time has come; true if there were any. Only on this worker.
    pub(super) fn fire_timers(&self) -> bool {
        let Some(due) = self.timers.next_due().ns() else { return false };
        let now = clock::monotonic_ns();
        let interrupt = |sleeper| Self::interrupt(Some(self), sleeper);
        now >= due && self.timers.0.fire(&ThisThread, now, interrupt) > 0
    }

    /// As [`fire_timers`](Self::fire_timers), for this worker, which is stuck, maybe in the midst of that. By the monitor.
    pub(crate) fn rescue_sleepers(&self) {
        let interrupt = |sleeper| Self::interrupt(None, sleeper);
        self.timers.0.try_fire(&ThisThread, clock::monotonic_ns(), interrupt);
    }

    fn interrupt(me: Option<&Worker>, sleeper: Sleeper) {
        // SAFETY: a fiber does not go on, nor leave the scope, before its timer is disarmed, for which it
        // needs the lock that is held here.
        let (fiber, scope) =
            unsafe { (sleeper.fiber.as_ref(), sleeper.scope.map(|mark| mark.as_ref())) };
        let interrupt = || {
            match me.filter(|&me| fiber.owner.is(me)) {
                // A mover that has gone on elsewhere, or the monitor fires.
                None => {
                    let _ = send(me, fiber, Wish::INTERRUPT);
                }
                Some(me) if fiber.apply(Event::Interrupt) == Effect::Enqueue => {
                    if !me.sent_home(fiber) {
                        me.enqueue(fiber);
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
