//! The forced unwind: how a fiber that must end before it wanted to runs its destructors.
//!
//! A cancel is sticky: if the fiber swallows the unwind, the next suspension raises it again.
//! It is raised only at suspension points, never while unwinding.

use std::panic;

use super::{ControlBlock, flag};

/// The payload of a forced unwind.
///
/// A fiber that catches panics sees it go by: it should be resumed by
/// [`std::panic::resume_unwind`]. A fiber that does not is unwound again at its next suspension.
#[derive(Debug)]
#[non_exhaustive]
pub struct Cancelled;

/// Called before a suspension of a fiber that has some flag.
#[cold]
#[inline(never)]
pub(crate) fn before_suspension(fiber: &ControlBlock) {
    assert!(
        fiber.flags.get() & flag::NO_SUSPEND == 0 || std::thread::panicking(),
        "daiko: a fiber wanted to suspend inside no_suspend"
    );
    if std::thread::panicking() {
        return;
    }
    fiber.flags.update(|flags| flags & !flag::UNWINDING);
    raise(fiber);
}

/// Called before each suspension on a thread that is panicking.
#[cold]
#[inline(never)]
pub(crate) fn suspends_unwinding(fiber: &ControlBlock) {
    fiber.flags.update(|flags| flags | flag::UNWINDING);
}

/// Called after a suspension of a fiber that has some flag.
#[cold]
#[inline(never)]
pub(crate) fn after_suspension(fiber: &ControlBlock) {
    fiber.flags.update(|flags| flags & !flag::INTERRUPTED);
    raise(fiber);
}

/// Whether the wait that has just returned was ended by its waker, not by a cancel.
#[cold]
#[inline(never)]
pub(crate) fn was_woken(fiber: &ControlBlock) -> bool {
    let interrupted = fiber.flags.get() & flag::INTERRUPTED != 0;
    fiber.flags.update(|flags| flags & !flag::INTERRUPTED);
    !interrupted
}

/// Unwinds the fiber if it is cancelled and was not unwinding when it suspended.
///
/// Then, not now: a neighbour that suspended in its own unwind leaves the thread panicking.
#[cold]
#[inline(never)]
pub(crate) fn raise(fiber: &ControlBlock) {
    let raise = fiber.flags.get() & flag::CANCEL != 0;
    if raise && cfg!(panic = "unwind") && fiber.flags.get() & flag::UNWINDING == 0 {
        panic::resume_unwind(Box::new(Cancelled));
    }
}
