//! Runtime sections: uses of the runtime by user code, noted in the execution mode of the fiber, so
//! that a death of its worker in between is understood.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use daiko_core::fiber::{ExecMode, Lent};

use super::is_active;
use crate::fiber::ControlBlock;
use crate::worker;

thread_local! {
    /// The execution mode of the blocking call that this pool thread makes; null: it makes none.
    static EXEC_MODE: Cell<*const ExecMode> = const { Cell::new(ptr::null()) };
}

/// Runs `make`, a call that blocks the calling thread, under the execution mode of that call. It
/// does not unwind.
pub fn with_exec_mode(exec_mode: &ExecMode, make: impl FnOnce()) {
    EXEC_MODE.set(exec_mode);
    make();
    EXEC_MODE.set(ptr::null());
}

/// Returns the execution mode of the call that this thread makes, if it belongs to a pool.
#[cold]
fn exec_mode_of_thread() -> Option<&'static ExecMode> {
    // SAFETY: the mode lies in the frame of the fiber that waits for this call, and only code
    // inside the call comes here.
    unsafe { EXEC_MODE.get().as_ref() }
}

/// A runtime section: a use of the runtime by user code; until dropped.
///
/// A section inside another is part of the outer one.
#[must_use = "the call ends where this is dropped"]
pub struct Call {
    /// The calling fiber; `None` if sections are not noted, or the caller is no fiber.
    fiber: Option<&'static ControlBlock>,
    /// The execution mode, if the section was entered from user code, and so returns there at its
    /// end. A thread that is no fiber has one as well, if it makes a blocking call.
    entered: Cell<Option<&'static ExecMode>>,
    /// The section belongs to one fiber.
    not_send: PhantomData<*const ()>,
}

/// Begins a runtime section, which lasts until the result is dropped. For the top of each function
/// by which users can leave shared state half done. Where workers are threads it costs a load and a
/// branch.
#[inline(always)]
pub fn call() -> Call {
    let (fiber, exec_mode) = if notes_calls() { whose() } else { (None, None) };
    let entered = exec_mode.filter(|exec_mode| exec_mode.enter(std::thread::panicking()));
    Call { fiber, entered: Cell::new(entered), not_send: PhantomData }
}

/// Evaluates an expression in a runtime section ([call]). For expressions that are so short that a
/// guard would show where workers are threads, or that have to be inlined there up to a switch. The
/// expression must not leave the function.
#[doc(hidden)]
#[macro_export]
macro_rules! in_call {
    ($what:expr) => {
        if $crate::process::notes_calls() { $crate::process::in_call_slow(|| $what) } else { $what }
    };
}

#[cold]
#[inline(never)]
pub fn in_call_slow<R>(what: impl FnOnce() -> R) -> R {
    let _call = call();
    what()
}

/// Runs `code`, which is user code, in the middle of a section: nothing may be half done there. If
/// the runtime catches a panic of it, it has to do so inside `code`, because a panic that passes
/// here makes the section one that unwinds.
#[inline]
pub fn user_code<R>(code: impl FnOnce() -> R) -> R {
    let _own = if notes_calls() { OwnCode::begin() } else { None };
    code()
}

/// Records that the section is about to raise a panic, or lets user code do so.
#[cold]
#[inline(never)]
pub fn unwinds() {
    if notes_calls()
        && let Some(exec_mode) = exec_mode()
    {
        exec_mode.unwind();
    }
}

/// Asserts, in builds with debug assertions, that the caller is no fiber in user code: its next
/// operation can be half done, and so belongs into a section.
#[inline]
pub fn assert_in_call() {
    debug_assert!(
        exec_mode().is_none_or(|exec_mode| !exec_mode.is_in_own_code()),
        "a fiber uses the runtime outside of a process::Call"
    );
}

/// Returns true if sections are noted: if a worker that dies may be replaced, and in all builds
/// with debug assertions.
#[inline(always)]
pub fn notes_calls() -> bool {
    cfg!(debug_assertions) || is_active()
}

/// Returns the calling fiber.
#[inline(always)]
pub(super) fn fiber() -> Option<&'static ControlBlock> {
    let worker =
        if cfg!(debug_assertions) { worker::current() } else { worker::current_of_process() };
    worker?.running()
}

#[inline(always)]
fn whose() -> (Option<&'static ControlBlock>, Option<&'static ExecMode>) {
    let fiber = fiber();
    (fiber, exec_mode_of(fiber))
}

/// Returns the execution mode of the calling fiber, or of the blocking call that this thread makes
/// for a fiber.
#[inline(always)]
fn exec_mode() -> Option<&'static ExecMode> {
    exec_mode_of(fiber())
}

#[inline(always)]
fn exec_mode_of(fiber: Option<&'static ControlBlock>) -> Option<&'static ExecMode> {
    match fiber {
        Some(fiber) => Some(&fiber.exec_mode),
        None => exec_mode_of_thread(),
    }
}

impl Call {
    /// Returns the fiber of the section, where workers are processes.
    #[inline(always)]
    pub(super) fn fiber(&self) -> Option<&'static ControlBlock> {
        self.fiber.filter(|_| !cfg!(debug_assertions) || is_active())
    }

    /// Records that the caller, if it is no fiber but makes a blocking call, has gained an object
    /// that no recovery gives back: to the end of that call it stays in the section.
    #[inline]
    pub(super) fn lasts(&self) {
        if self.fiber.is_none() {
            self.entered.set(None);
        }
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(exec_mode) = self.entered.get()
            && !exec_mode.leave()
            && let Some(fiber) = self.fiber
        {
            // SAFETY: the runtime outlives its fibers; the fiber calls, on its own stack, and does
            // not come back to these frames.
            unsafe { (fiber.runtime.as_ref().die)(fiber, None) }
        }
    }
}

/// User code that the runtime runs in the middle of a section; until dropped.
struct OwnCode {
    exec_mode: &'static ExecMode,
    lent: Lent,
}

impl OwnCode {
    fn begin() -> Option<Self> {
        let exec_mode = exec_mode()?;
        Some(OwnCode { exec_mode, lent: exec_mode.lend() })
    }
}

impl Drop for OwnCode {
    fn drop(&mut self) {
        self.exec_mode.take_back(self.lent, std::thread::panicking());
    }
}
