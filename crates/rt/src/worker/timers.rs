//! The timers of fibers that wait on a worker until a deadline.

use std::pin::pin;
use std::ptr::NonNull;

use daiko_core::cancel::Mark;
use daiko_core::fiber::{Effect, Event};
use daiko_core::list::Unlinked;
use daiko_core::timer::{Timer, Wheel};
use daiko_sys::clock;

use super::mail::{WakeRequest, send};
use super::source::{Round, Source};
use super::state::{Sleeper, Timers, Worker};
use crate::deadline::Deadline;
use crate::fiber::ControlBlock;
use crate::process::{self, Item, ItemKind};
use crate::runtime::kernel::ThisThread;

/// The timer of a fiber, in its frame.
pub(crate) type Armed = Timer<Sleeper>;

impl Timers {
    /// Constant, because it is large: it is copied once, not from frame to frame.
    pub(super) const fn new() -> Self {
        Timers(Wheel::new())
    }

    /// Runs `wait`: a suspension of `fiber`, the caller, or everything that it does in `scope`. At
    /// `due_ns` on the monotonic clock, ends the scope, if there is one, and interrupts `fiber`;
    /// also returns true if that happened. `wait` must not unwind.
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
        // SAFETY: the timer is new, and stays in place until it is disarmed below: `wait` returns.
        unsafe { self.0.arm(&ThisThread, timer, due_ns) };
        let lent = scope.map(|_| Item::new(self, timer.as_ptr().cast_const().cast(), &RECOVERY));
        if let Some(lent) = lent {
            process::call().add(lent);
        }
        let result = wait();
        if let Some(lent) = lent {
            process::call().remove(lent);
        }
        // SAFETY: the timer is alive, and was armed in this wheel.
        let disarmed = unsafe { self.0.disarm(&ThisThread, timer) };
        let fired = disarmed == Unlinked::AlreadyGone;
        if fired {
            // Removes an interrupt that has come after the wake.
            let _ = fiber.apply(Event::Looked);
        }
        (result, fired)
    }
}

/// Disarms the timer of a scope whose fiber is lost. The detail is the address of the timer.
static RECOVERY: ItemKind = ItemKind {
    recover: |timers, timer| {
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
    /// Interrupts the fibers that are due; returns true if there were any. Only on this worker.
    pub(super) fn fire_timers(&self) -> bool {
        let Some(due) = self.timers.next_due().ns() else { return false };
        let now = clock::monotonic_ns();
        let interrupt = |sleeper| Self::interrupt(Some(self), sleeper);
        now >= due && self.timers.0.fire(&ThisThread, now, interrupt) > 0
    }

    /// Interrupts the fibers of this worker that are due. For the monitor, while the worker is
    /// stuck, perhaps in [`fire_timers`](Self::fire_timers).
    pub(crate) fn rescue_sleepers(&self) {
        let interrupt = |sleeper| Self::interrupt(None, sleeper);
        self.timers.0.try_fire(&ThisThread, clock::monotonic_ns(), interrupt);
    }

    fn interrupt(me: Option<&Worker>, sleeper: Sleeper) {
        // SAFETY: a fiber goes on, or leaves the scope, only after its timer is disarmed. That
        // needs the lock that is held here.
        let (fiber, scope) =
            unsafe { (sleeper.fiber.as_ref(), sleeper.scope.map(|mark| mark.as_ref())) };
        let interrupt = || {
            match me.filter(|&me| fiber.owner.is(me)) {
                // A migratable fiber that has gone on elsewhere, or the caller is the monitor.
                None => {
                    let _ = send(me, fiber, WakeRequest::INTERRUPT);
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
