//! Wakes: events for a fiber. The path of [`Fiber::unpark`] comes first.

use std::ptr;

use daiko_core::fiber::{ByExchange, Effect, Plain, Transition};

use super::control::ControlBlock;
use super::handle::Fiber;
use crate::call::InCall;
use crate::worker::{self, WakeRequest, Worker};

impl Fiber {
    /// Lets the fiber's [`park`](crate::park) return: now, or when it is called next.
    ///
    /// Any thread may call it, at any time; it has no effect on a fiber that has ended. Everything
    /// before the unpark happens before the return of that park.
    #[inline]
    pub fn unpark(&self) {
        crate::in_call!(|call| {
            let home = self.home.get();
            let current = worker::current();
            let may_be_here = home.is_null() || current.is_some_and(|worker| ptr::eq(worker, home));
            if !(may_be_here && self.block().deliver_local(call, current, Transition::Unpark)) {
                self.unpark_elsewhere(call, current, (!may_be_here).then_some(home));
            }
        });
    }
}

impl ControlBlock {
    /// Returns true if the fiber is the copy of one in the parent of the calling process. `current`
    /// is the caller's worker.
    #[inline]
    pub(super) fn is_inherited_by(&self, current: Option<&Worker>) -> bool {
        // SAFETY: the runtime outlives its blocks.
        let runtime = unsafe { self.runtime.as_ref() };
        !current.is_some_and(|worker| worker.is_of(runtime)) && !runtime.is_here()
    }

    /// Delivers `event` if `current` is the fiber's worker; returns false if not.
    // Always inlined: a function of its own would have to find out which event it is, some 25
    // instructions more for a switch by a condition.
    #[inline(always)]
    pub fn deliver_local(
        &self,
        call: InCall<'_>,
        current: Option<&Worker>,
        event: Transition,
    ) -> bool {
        let Some(worker) = current.filter(|&worker| self.owner.is(worker)) else {
            return false;
        };
        if self.apply(call, event) == Effect::Enqueue && !worker.sent_home(call, self) {
            worker.make_next(call, self);
        }
        true
    }

    /// Applies `event` in the fiber's mode. For a pinned fiber: only its worker.
    #[inline]
    pub(crate) fn apply(&self, _: InCall<'_>, event: Transition) -> Effect {
        let effect = if self.is_migratable() {
            self.state.apply::<ByExchange>(event)
        } else {
            self.state.apply::<Plain>(event)
        };
        match event {
            Transition::Cancel => self.record_cancel(effect),
            // The thread that made it active has it alone.
            Transition::Interrupt if effect == Effect::Enqueue => self.flags.end_by_interrupt(),
            _ => {}
        }
        effect
    }

    /// Notes the effect of a cancel: it ended a suspension, or a pinned fiber's next one will not
    /// last.
    ///
    /// A migratable fiber that is active may run elsewhere, so its flags must not be touched: it
    /// finds the cancel in its run state when it suspends.
    #[cold]
    fn record_cancel(&self, effect: Effect) {
        match effect {
            Effect::Enqueue => self.flags.end_by_cancel(),
            _ if self.is_migratable() => {}
            _ => self.flags.cancel(),
        }
    }

    /// Ends the wait that the caller has claimed, from any thread; `here` is its worker.
    #[inline]
    pub fn wake(&self, call: InCall<'_>, here: Option<&Worker>) {
        if !self.deliver_local(call, here, Transition::Wake) {
            let _ = worker::send(call, here, self, WakeRequest::WAKE);
        }
    }
}

impl Fiber {
    /// Unparks a fiber that is not known to be on the caller's own worker.
    #[inline]
    fn unpark_elsewhere(
        &self,
        call: InCall<'_>,
        current: Option<&Worker>,
        home: Option<*const Worker>,
    ) {
        let request = WakeRequest::UNPARK;
        if self.block().is_inherited_by(current) {
            return;
        }
        if let Some(home) = home {
            // SAFETY: the fiber is pinned to `home`, which lives as long as its block, and so as
            // this handle.
            worker::mail_pinned(call, current, unsafe { &*home }, self.block(), request.message);
        } else if let Some(home) = worker::send(call, current, self.block(), request) {
            self.home.remember(home);
        }
    }
}
