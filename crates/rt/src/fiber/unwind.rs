//! The forced unwind: how a fiber that must end before it wanted to runs its destructors.
//!
//! A cancel is sticky: if the fiber swallows the unwind, the next suspension raises it again.
//! It is raised only at suspension points, never while unwinding.

use std::{fmt, panic};

use daiko_core::fiber::Event;

use super::{ControlBlock, cancel_scope, flag};
use crate::process;
use crate::worker::{self, Worker, suspend};

/// The payload of a forced unwind: by a cancel, a `time::timeout`, or a
/// `cancel::CancelToken`, whose `cancel::CancelToken::run` returns it.
///
/// A fiber that catches panics sees it go by: it should be resumed by
/// [`std::panic::resume_unwind`]. A fiber that does not is unwound again at its next suspension.
pub struct Cancelled {
    /// Address of the scope that it unwinds out of; 0: of all that the fiber runs.
    pub(crate) scope: usize,
}

impl Cancelled {
    /// The fiber itself is cancelled.
    pub(crate) const WHOLLY: Self = Cancelled { scope: 0 };

    fn is_wholly(&self) -> bool {
        self.scope == Self::WHOLLY.scope
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancelled")
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it was cancelled before it came to its end")
    }
}

impl std::error::Error for Cancelled {}

/// Called before a suspension of a fiber that has some flag.
#[cold]
#[inline(never)]
pub fn before_suspension(fiber: &ControlBlock) {
    if fiber.flags.get() & flag::NO_SUSPEND != 0 && !std::thread::panicking() {
        process::unwinds();
        panic!("daiko: a fiber wanted to suspend inside no_suspend");
    }
    if is_due_before(fiber) {
        raise_now(fiber);
    }
}

/// Called before a suspension of a fiber that has some flag: whether a cancel is due there.
///
/// Not while the thread is panicking, as nobody can tell whether it is this fiber that unwinds.
pub(crate) fn is_due_before(fiber: &ControlBlock) -> bool {
    if std::thread::panicking() {
        // It may be a neighbour's panic, which shows as the fiber suspends: so that must not last.
        if is_due(fiber) {
            let _call = process::call();
            let _ = fiber.apply(Event::Interrupt);
        }
        return false;
    }
    fiber.flags.update(|flags| flags & !(flag::UNWINDING | flag::RAISED));
    is_due(fiber)
}

/// Called before each suspension on a thread that is panicking.
#[cold]
#[inline(never)]
pub(crate) fn suspends_on_panicking_thread(worker: &Worker, fiber: &ControlBlock) {
    if is_unwinding(worker, fiber) {
        fiber.add_flags(flag::UNWINDING | flag::COUNTED);
        worker.unwinding.update(|count| count + 1);
    }
}

/// Called after a park of a fiber that has some flag.
#[cold]
#[inline(never)]
pub(crate) fn after_park(fiber: &ControlBlock) {
    if was_woken(fiber) { raise_own(fiber) } else { raise(fiber) }
}

/// Called after a fiber that has some flag has yielded.
#[cold]
#[inline(never)]
pub(crate) fn after_yield(fiber: &ControlBlock) {
    let _ = was_woken(fiber);
    raise(fiber);
}

/// Called after a suspension of a fiber that has some flag: whether its waker ended it, not a
/// cancel or timer.
#[cold]
#[inline(never)]
pub(crate) fn was_woken(fiber: &ControlBlock) -> bool {
    let flags = fiber.flags.get();
    fiber.flags.set(flags & !(flag::INTERRUPTED | flag::COUNTED));
    if flags & flag::COUNTED != 0
        && let Some(worker) = worker::current()
    {
        // The worker is the one that counted it: who unwinds does not move. Maybe not its process.
        worker.unwinding.update(|count| count - 1);
        if worker.is_expected() {
            fiber.course.doom();
        }
    }
    flags & flag::INTERRUPTED == 0
}

/// Whether `fiber`, which runs on a thread that is panicking, is what unwinds there.
///
/// It is if nobody else can be, or if a cancel has been raised in it. If another is suspended there in its unwinding, a panic of this one
/// since its last suspension goes unnoticed.
fn is_unwinding(worker: &Worker, fiber: &ControlBlock) -> bool {
    const KNOWN: u32 = flag::UNWINDING | flag::RAISED;
    worker.unwinding.get() == 0 || fiber.flags.get() & KNOWN != 0
}

/// Whether the caller unwinds by a panic: as [`std::thread::panicking`], but of the calling fiber,
/// not of the thread that it shares with others, and not where a cancel unwinds it.
///
/// While another fiber of the same worker is suspended in its unwinding, a panic of the caller shows
/// only once it has suspended as well.
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
    suspend::try_caller().is_none_or(|(worker, fiber)| {
        fiber.flags.get() & flag::RAISED == 0 && is_unwinding(worker, fiber)
    })
}

/// Unwinds the fiber if it, or a scope that it is in, is cancelled, and it was not unwinding when it suspended.
///
/// Then, not now: a neighbour that suspended in its own unwind leaves the thread panicking.
#[cold]
#[inline(never)]
pub fn raise(fiber: &ControlBlock) {
    if let Some(cancelled) = due(fiber) {
        raise_with(fiber, cancelled);
    }
}

/// As [`raise`], but not for the end of a scope: what the fiber has waited for has come, and it goes on
/// with that to its next suspension.
pub(crate) fn raise_own(fiber: &ControlBlock) {
    if let Some(cancelled) = due(fiber).filter(Cancelled::is_wholly) {
        raise_with(fiber, cancelled);
    }
}

/// Unwinds the fiber, for which that is due.
#[cold]
pub fn raise_now(fiber: &ControlBlock) -> ! {
    let Some(cancelled) = due(fiber) else { unreachable!("what is due stays so") };
    raise_with(fiber, cancelled)
}

fn raise_with(fiber: &ControlBlock, cancelled: Cancelled) -> ! {
    fiber.add_flags(flag::RAISED);
    process::unwinds();
    panic::resume_unwind(Box::new(cancelled))
}

/// Whether something is to be raised where the fiber has suspended.
pub(crate) fn is_due(fiber: &ControlBlock) -> bool {
    due(fiber).is_some()
}

/// What is to be raised where the fiber has suspended, or is about to.
fn due(fiber: &ControlBlock) -> Option<Cancelled> {
    const CALLS: u32 = flag::CANCEL | flag::SCOPED;
    // Who has caught what was raised shows where the thread does not panic.
    const UNWINDS: u32 = flag::UNWINDING | flag::RAISED;
    let flags = fiber.flags.get();
    let may_be = cfg!(panic = "unwind") && flags & CALLS != 0 && flags & UNWINDS == 0;
    if may_be { cancel_scope::due(fiber) } else { None }
}
