//! The forced unwind: a fiber that must end before its code has ended runs its destructors.
//!
//! A cancel is sticky: if the fiber swallows the unwind, the next suspension raises it again. It is
//! raised only at suspension points, never while unwinding.

use std::panic;

use daiko_core::fiber::Transition;

use super::cancelled::Cancelled;
use super::{ControlBlock, cancel_scope};
use crate::call::{self, Call};
use crate::worker::{self, Worker};

/// Prepares a suspension of a fiber that has a flag.
#[cold]
#[inline(never)]
#[track_caller]
pub fn before_suspension(fiber: &ControlBlock) {
    if fiber.flags.is_no_suspend() && !std::thread::panicking() {
        call::unwinds();
        panic!("daiko: a fiber wanted to suspend inside no_suspend");
    }
    if is_due_before(fiber) {
        raise_now(fiber);
    }
}

/// Prepares a suspension of a fiber that has a flag; returns true if a cancel is due there.
///
/// Never while the thread is panicking, as it cannot be told whether this fiber is the fiber that
/// unwinds.
pub(crate) fn is_due_before(fiber: &ControlBlock) -> bool {
    if std::thread::panicking() {
        // Without thread-locals of its own, it may be a neighbour's panic. That shows once the
        // fiber has suspended, so the suspension must not last.
        if !fiber.is_own() && is_due(fiber) {
            let call = Call::enter();
            let _ = fiber.apply(call.token(), Transition::Interrupt);
        }
        return false;
    }
    fiber.flags.end_unwind();
    is_due(fiber)
}

/// Prepares a suspension on a thread that is panicking.
#[cold]
#[inline(never)]
pub(crate) fn suspends_on_panicking_thread(worker: &Worker, fiber: &ControlBlock) {
    if fiber.is_own() {
        fiber.flags.suspend_own_unwinding();
    } else if is_unwinding(worker, fiber) {
        fiber.flags.suspend_unwinding();
        worker.unwinding.update(|count| count + 1);
    }
}

/// Completes a park of a fiber that has a flag.
#[cold]
#[inline(never)]
pub(crate) fn after_park(fiber: &ControlBlock) {
    if was_woken(fiber) { raise_own(fiber) } else { raise(fiber) }
}

/// Completes a yield of a fiber that has a flag.
#[cold]
#[inline(never)]
pub(crate) fn after_yield(fiber: &ControlBlock) {
    let _ = was_woken(fiber);
    raise(fiber);
}

/// Completes a suspension of a fiber that has a flag; returns true if its waker ended it, not a
/// cancel or timer.
#[cold]
#[inline(never)]
pub(crate) fn was_woken(fiber: &ControlBlock) -> bool {
    let resumption = fiber.flags.complete_suspension();
    if resumption.is_counted
        && let Some(worker) = worker::current()
    {
        // This worker has counted it, as a fiber that unwinds does not move. Its process may have
        // been replaced.
        worker.unwinding.update(|count| count - 1);
        if worker.is_expected() {
            fiber.exec_mode.doom();
        }
    }
    resumption.is_woken
}

/// Returns true if `fiber`, which runs on a thread that is panicking, is the fiber that unwinds
/// there.
///
/// It is if it has thread-locals of its own, if no other fiber can be, or if a cancel has been
/// raised in it. If another fiber is
/// suspended there while it unwinds, a panic of this one since its last suspension goes unnoticed.
fn is_unwinding(worker: &Worker, fiber: &ControlBlock) -> bool {
    fiber.is_own() || worker.unwinding.get() == 0 || fiber.flags.is_unwinding()
}

/// Returns true if the caller unwinds by a panic. Unlike [`std::thread::panicking`], it is about
/// the calling fiber, not about the thread that it shares with other fibers, and false if a cancel
/// unwinds the fiber.
///
/// While another fiber of the same worker is suspended while it unwinds, a panic of the caller
/// shows only once the caller has suspended as well.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// assert!(!daiko::panicking());
/// # });
/// ```
#[inline]
pub fn panicking() -> bool {
    std::thread::panicking() && panics_itself()
}

#[cold]
fn panics_itself() -> bool {
    worker::try_caller()
        .is_none_or(|(worker, fiber)| !fiber.flags.is_raised() && is_unwinding(worker, fiber))
}

/// Unwinds the fiber if it, or a scope that it is in, is cancelled, and it was not unwinding when
/// it suspended.
///
/// The state at that suspension counts: a neighbour that suspended in its own unwind leaves the
/// thread panicking.
#[cold]
#[inline(never)]
pub fn raise(fiber: &ControlBlock) {
    if let Some(cancelled) = due(fiber) {
        raise_with(fiber, cancelled);
    }
}

/// Unwinds as [`raise`] does, but not for the end of a scope: the wait of the fiber was fulfilled,
/// and it goes on to its next suspension.
pub(crate) fn raise_own(fiber: &ControlBlock) {
    if let Some(cancelled) = due(fiber).filter(Cancelled::is_wholly) {
        raise_with(fiber, cancelled);
    }
}

/// Unwinds the fiber; a cancel is due.
#[cold]
pub fn raise_now(fiber: &ControlBlock) -> ! {
    let Some(cancelled) = due(fiber) else { unreachable!("a due cancel stays due") };
    raise_with(fiber, cancelled)
}

fn raise_with(fiber: &ControlBlock, cancelled: Cancelled) -> ! {
    fiber.flags.raise();
    call::unwinds();
    panic::resume_unwind(Box::new(cancelled))
}

/// Returns true if a cancel or the end of a scope is to be raised where the fiber has suspended.
pub(crate) fn is_due(fiber: &ControlBlock) -> bool {
    due(fiber).is_some()
}

/// Returns the payload to raise where the fiber has suspended, or is about to.
fn due(fiber: &ControlBlock) -> Option<Cancelled> {
    let may_be = cfg!(panic = "unwind") && fiber.flags.may_unwind();
    if may_be { cancel_scope::due(fiber) } else { None }
}
