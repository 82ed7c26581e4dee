//! Wakes: events for a fiber from a waker that has claimed its wait.

use daiko_core::fiber::{Effect, Event};

use super::control::ControlBlock;
use crate::worker::{self, WakeRequest, Worker};

impl ControlBlock {
    /// Ends the wait that the caller has claimed, from any thread; `here` is its worker.
    #[inline]
    pub fn wake(&self, here: Option<&Worker>) {
        if !self.deliver_local(here, Event::Wake) {
            let _ = worker::send(here, self, WakeRequest::WAKE);
        }
    }

    /// Delivers `event` if `current` is the fiber's worker; returns false if not.
    // Always inlined: a function of its own would have to find out which event it is, some 25
    // instructions more for a switch by a condition.
    #[inline(always)]
    pub fn deliver_local(&self, current: Option<&Worker>, event: Event) -> bool {
        let Some(worker) = current.filter(|&worker| self.owner.is(worker)) else {
            return false;
        };
        if self.apply(event) == Effect::Enqueue && !worker.sent_home(self) {
            worker.make_next(self);
        }
        true
    }
}
