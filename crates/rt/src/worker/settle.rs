//! The work that a fiber leaves for the fiber or agent that runs next: it cannot be done on the
//! fiber's own stack.

use daiko_core::fiber::{ByExchange, Effect, Transition};

use super::state::{Departed, Worker};
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::fiber::{ControlBlock, Lender};

impl Worker {
    /// Returns true if the fiber that has just left its stack has left work behind.
    #[inline(always)]
    pub(super) fn has_departed(&self) -> bool {
        !matches!(self.departed.get(), Departed::None)
    }

    /// Does the work that is left for the fiber that has just left its stack.
    pub(super) fn settle(&self) {
        let call = InCall::agent(self);
        match self.departed.replace(Departed::None) {
            Departed::None => {}
            Departed::Suspending { fiber, event, cancelled } => {
                // SAFETY: a fiber that has not finished is in use.
                let fiber = unsafe { fiber.as_ref() };
                let goes_on = match fiber.state.apply::<ByExchange>(event) {
                    Effect::Suspended => !cancelled && self.cancel_migratable(call, fiber),
                    come => {
                        fiber.found(come);
                        true
                    }
                };
                if goes_on {
                    self.enqueue(call, fiber);
                }
            }
            Departed::Yielding(fiber) => {
                // SAFETY: as above.
                let fiber = unsafe { fiber.as_ref() };
                if fiber.state.is_cancelled() || self.is_shutting_down() {
                    fiber.must_unwind();
                }
                self.enqueue(call, fiber);
            }
            Departed::Lost { fiber, stack, anew } => {
                // SAFETY: a block is never unmapped, and no thread is on either stack any more.
                unsafe {
                    stack.inspect(|stack| stack.as_ref().free_now(call));
                    if anew {
                        self.begin_anew(call, fiber.as_ref())
                    } else {
                        self.bury(call, fiber.as_ref())
                    }
                }
            }
            // SAFETY: the fiber's own reference keeps it until here.
            Departed::Finished(fiber) => self.bury(call, unsafe { fiber.as_ref() }),
            Departed::GoesHome { fiber, lender } => {
                // SAFETY: as above. The lender lives until its context has come home.
                unsafe {
                    let context = fiber.as_ref().sp.get();
                    self.bury(call, fiber.as_ref());
                    // The handle of the lender, which has sent no message.
                    fiber.as_ref().release(call);
                    Lender::receive(lender, context);
                }
            }
        }
    }

    /// Cancels a migratable fiber that has suspended during the shutdown; returns true if that made
    /// it active.
    fn cancel_migratable(&self, call: InCall<'_>, fiber: &ControlBlock) -> bool {
        self.is_shutting_down() && fiber.apply(call, Transition::Cancel) == Effect::Enqueue
    }

    #[inline(always)]
    fn bury(&self, call: InCall<'_>, fiber: &ControlBlock) {
        if !fiber.is_migratable() {
            self.live.store(self.live.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            self.borrowed.set(self.borrowed.get() - u32::from(!fiber.is_own()));
        }
        fiber.release(call);
        self.counters.ends.add(1);
    }
}
