//! The wait of a future for the end of a fiber.

use std::ptr::NonNull;
use std::task::Waker;

use super::HeldWaker;
use crate::fiber::{Completion, WaiterId};

/// The wait of a future for the end of a fiber: the id that it has published in the [`Completion`].
///
/// It has to [leave](Self::leave) before it is dropped, otherwise its memory is leaked.
#[derive(Debug, Default)]
pub struct Enrollment(Option<(NonNull<HeldWaker>, WaiterId)>);

// SAFETY: the pointer is to memory that the enrollment owns, or has lent to the completion word; a
// `Waker` may be sent.
unsafe impl Send for Enrollment {}
// SAFETY: nothing is done by a shared reference.
unsafe impl Sync for Enrollment {}

/// The outcome of an attempt to wait.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrolled {
    /// The waker will be woken at the end.
    Waits,
    /// There is nothing to wait for: the fiber has ended, or will never do.
    Over,
}

impl Enrollment {
    /// Creates the enrollment of a future that does not wait.
    pub const fn new() -> Self {
        Enrollment(None)
    }

    /// Waits by `waker`, in place of the waker that waits now, if there is one.
    ///
    /// `id` makes an id of a held waker. All calls are for the same completion.
    pub fn enroll(
        &mut self,
        completion: &Completion,
        waker: &Waker,
        id: impl FnOnce(NonNull<HeldWaker>) -> WaiterId,
    ) -> Enrolled {
        let (held, id) = match self.0.take() {
            None => {
                let held = HeldWaker::allocate(waker.clone());
                (held, id(held))
            }
            Some((held, id)) => {
                if !cfg!(weaken = "enrollment-replace") && !completion.leave(id) {
                    // The end has claimed the wait, and the held waker with it.
                    return Enrolled::Over;
                }
                // SAFETY: the id was taken out of the word, so the memory is this future's. (Not so
                // in the build that is weakened.)
                unsafe { HeldWaker::renew(held, waker) };
                if cfg!(weaken = "enrollment-replace") {
                    self.0 = Some((held, id));
                    return Enrolled::Waits;
                }
                (held, id)
            }
        };
        if completion.wait(id) {
            self.0 = Some((held, id));
            return Enrolled::Waits;
        }
        // SAFETY: the id is not in the word, so the memory is this future's; it is not used again.
        drop(unsafe { HeldWaker::take(held) });
        Enrolled::Over
    }

    /// Ends the wait, if there is one and the end of the fiber has not claimed it.
    pub fn leave(&mut self, completion: &Completion) {
        let Some((held, id)) = self.0.take() else { return };
        if cfg!(weaken = "enrollment-leave") {
            // SAFETY: none. The waker is dropped while its id is published.
            unsafe { HeldWaker::renew(held, Waker::noop()) };
        } else if completion.leave(id) {
            // SAFETY: the id was taken out of the word, so the memory is this future's; it is not
            // used again.
            drop(unsafe { HeldWaker::take(held) });
        }
    }
}
