//! Cancel scopes, the common base of `time::timeout` and `CancelToken::run`: a part of a fiber's
//! execution that it can be unwound out of early.
//!
//! The protocol is that of `daiko_core::cancel`. The payload that is raised in a scope names the
//! scope. So it passes the scopes inside, and each `catch_unwind` of user code that resumes it, up
//! to the scope that it names.

use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use daiko_core::cancel::ScopeMark;
use daiko_core::fiber::Transition;
use daiko_sys::clock;

use super::ControlBlock;
use super::cancelled::{CancelScope, Cancelled};
use crate::call::{self, Call, InCall};
use crate::deadline::Deadline;

impl CancelScope {
    /// Creates a scope that `fiber`, the caller, may enter.
    pub fn new(fiber: &ControlBlock, deadline: Deadline) -> Self {
        let (outer, entered) = (fiber.scopes.get(), fiber.flags.at_entry());
        CancelScope { outer, entered, deadline, mark: ScopeMark::new() }
    }

    pub fn mark(&self) -> &ScopeMark {
        &self.mark
    }

    /// Runs `body`, which is user code, in the scope, which other threads may already end. It does
    /// not unwind. Once other threads cannot end the scope any more, the caller must call
    /// [`settle`](Self::settle).
    pub fn run<R>(
        &self,
        call: &mut Call,
        fiber: &ControlBlock,
        body: impl FnOnce() -> R,
    ) -> std::thread::Result<R> {
        fiber.scopes.set(self);
        fiber.flags.enter_scope();
        let result = call.user_code(|| panic::catch_unwind(AssertUnwindSafe(body)));
        fiber.scopes.set(self.outer);
        if self.outer.is_null() {
            fiber.flags.leave_scopes();
        }
        result
    }

    /// Evaluates the result once `fiber` has left the scope: an unwind that does not name this
    /// scope goes on.
    pub fn settle<R>(
        &self,
        call: InCall<'_>,
        fiber: &ControlBlock,
        result: std::thread::Result<R>,
    ) -> Result<R, Cancelled> {
        if self.mark.is_over() {
            // Only the interrupt of this scope is lost: the fiber looks for other ended scopes
            // before its next suspension.
            let _ = fiber.apply(call, Transition::Looked);
        }
        let payload = match result {
            Ok(value) => return Ok(value),
            Err(payload) => payload,
        };
        match payload.downcast_ref::<Cancelled>() {
            Some(cancelled) if cancelled.is_of(self) => {
                // The unwind of this scope has ended; an unwind during which the scope was entered
                // may not have.
                fiber.flags.restore_unwind(self.entered);
                Err(Cancelled::by(self))
            }
            _ => {
                call::unwinds();
                panic::resume_unwind(payload)
            }
        }
    }

    /// Returns true if `fiber`, which is in the scope, may be unwound out of it: not out of a
    /// `shield` that was entered since.
    fn is_open(&self, fiber: &ControlBlock) -> bool {
        fiber.flags.is_shielded_as(self.entered)
    }

    fn is_over(&self) -> bool {
        self.mark.is_over()
    }

    /// Returns true if the scope has ended or its deadline has passed, even if no thread has looked
    /// at its timer since.
    fn is_over_by_now(&self) -> bool {
        self.is_over() || self.deadline.ns().is_some_and(|due| due <= clock::monotonic_ns())
    }
}

/// Returns the scopes that `fiber`, the caller, is in, the innermost first.
fn around(fiber: &ControlBlock) -> impl Iterator<Item = &CancelScope> {
    // SAFETY: a fiber is in the scopes of its list, so their frames exist.
    let scope = |scope: *const CancelScope| unsafe { scope.as_ref() };
    std::iter::successors(scope(fiber.scopes.get()), move |inner| scope(inner.outer))
}

/// Returns the payload to raise where `fiber`, the caller, has suspended or is about to, unless it
/// is shielded: a cancel of the fiber, or else the end of its outermost ended scope.
pub(super) fn due(fiber: &ControlBlock) -> Option<Cancelled> {
    if fiber.flags.is_cancel_due() {
        return Some(Cancelled::WHOLLY);
    }
    let open = |scope: &&CancelScope| scope.is_over() && scope.is_open(fiber);
    around(fiber).filter(open).last().map(Cancelled::by)
}

/// Returns true if a scope that `fiber`, the caller, is in has ended.
pub fn is_any_over(fiber: &ControlBlock) -> bool {
    around(fiber).any(CancelScope::is_over_by_now)
}

impl Cancelled {
    /// Creates the payload to unwind out of `scope`.
    pub fn by(scope: &CancelScope) -> Self {
        Cancelled { scope: ptr::from_ref(scope).addr() }
    }

    /// Returns true if it was raised for `scope`. A payload kept from an earlier scope at the same
    /// address counts if this scope has ended as well.
    fn is_of(&self, scope: &CancelScope) -> bool {
        self.scope == ptr::from_ref(scope).addr() && scope.is_over()
    }
}
