//! What `time::timeout` and `CancelToken::run` have in common: a part of a fiber's course out of which
//! it is unwound early.
//!
//! The protocol is that of `daiko_core::cancel`. What is raised in a scope names it, so that it goes
//! through those inside, and through `catch_unwind` of a user who resumes it, up to the one meant.

use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use daiko_core::cancel::Mark;
use daiko_core::fiber::Event;
use daiko_sys::clock;

use super::{Cancelled, ControlBlock, flag};
use crate::process;
use crate::wait::Deadline;

/// A part of a fiber's course, in the frame of the call that it is of.
pub struct CancelScope {
    /// The one around it; null: none.
    outer: *const CancelScope,
    /// The fiber's flags as it was entered.
    entered: u32,
    /// When it ends by itself.
    deadline: Deadline,
    mark: Mark,
}

impl CancelScope {
    /// A scope that `fiber`, the caller, may enter.
    pub fn new(fiber: &ControlBlock, deadline: Deadline) -> Self {
        let (outer, entered) = (fiber.scopes.get(), fiber.flags.get());
        CancelScope { outer, entered, deadline, mark: Mark::new() }
    }

    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Runs `body`, the user's, in the scope, of which others know by now. It does not unwind: once they do not any
    /// more, [`settle`](Self::settle) is due.
    pub fn run<R>(&self, fiber: &ControlBlock, body: impl FnOnce() -> R) -> std::thread::Result<R> {
        fiber.scopes.set(self);
        fiber.add_flags(flag::SCOPED);
        let result = process::own_code(|| panic::catch_unwind(AssertUnwindSafe(body)));
        fiber.scopes.set(self.outer);
        if self.outer.is_null() {
            fiber.flags.update(|flags| flags & !flag::SCOPED);
        }
        result
    }

    /// What the scope leaves, which `fiber` is out of: an unwinding that was not meant for it goes on.
    pub fn settle<R>(
        &self,
        fiber: &ControlBlock,
        result: std::thread::Result<R>,
    ) -> Result<R, Cancelled> {
        if self.mark.is_over() {
            // Nothing but this scope is forgotten: others are looked for before the next suspension.
            let _ = fiber.apply(Event::Looked);
        }
        let payload = match result {
            Ok(value) => return Ok(value),
            Err(payload) => payload,
        };
        match payload.downcast_ref::<Cancelled>() {
            Some(cancelled) if cancelled.is_of(self) => {
                // Its unwinding is over; one in whose course it was entered may not be.
                const UNWINDS: u32 = flag::UNWINDING | flag::RAISED;
                fiber.flags.update(|flags| flags & !UNWINDS | self.entered & UNWINDS);
                Err(Cancelled::by(self))
            }
            _ => {
                process::unwinds();
                panic::resume_unwind(payload)
            }
        }
    }

    /// Whether `fiber`, which is in it, may be unwound out of it: not out of a `shield` that was entered since.
    fn is_open(&self, fiber: &ControlBlock) -> bool {
        fiber.flags.get() & flag::SHIELD == self.entered & flag::SHIELD
    }

    fn is_over(&self) -> bool {
        self.mark.is_over()
    }

    /// Whether its time has come, also where nobody has looked at its timer since.
    fn is_over_by_now(&self) -> bool {
        self.is_over() || self.deadline.ns().is_some_and(|due| due <= clock::monotonic_ns())
    }
}

/// The scopes that `fiber`, the caller, is in, the innermost first.
fn around(fiber: &ControlBlock) -> impl Iterator<Item = &CancelScope> {
    // SAFETY: a fiber is in the scopes of its list, so that their frames are there.
    let scope = |scope: *const CancelScope| unsafe { scope.as_ref() };
    std::iter::successors(scope(fiber.scopes.get()), move |inner| scope(inner.outer))
}

/// Returns what is to be raised where `fiber`, the caller, has suspended or is about to, if nothing
/// keeps it back: a cancel of the fiber, or else the end of its outermost scope that is over.
pub(super) fn due(fiber: &ControlBlock) -> Option<Cancelled> {
    let flags = fiber.flags.get();
    if flags & flag::CANCEL != 0 && flags & flag::SHIELD == 0 {
        return Some(Cancelled::WHOLLY);
    }
    let open = |scope: &&CancelScope| scope.is_over() && scope.is_open(fiber);
    around(fiber).filter(open).last().map(Cancelled::by)
}

/// Whether some scope that `fiber`, the caller, is in is over.
pub fn is_any_over(fiber: &ControlBlock) -> bool {
    around(fiber).any(CancelScope::is_over_by_now)
}

impl Cancelled {
    /// What is raised to unwind out of `scope`.
    pub fn by(scope: &CancelScope) -> Self {
        Cancelled { scope: ptr::from_ref(scope).addr() }
    }

    /// Whether it was raised for `scope`. One that has been kept since a scope that is gone, in the same
    /// place, counts where this is over as well.
    fn is_of(&self, scope: &CancelScope) -> bool {
        self.scope == ptr::from_ref(scope).addr() && scope.is_over()
    }
}
