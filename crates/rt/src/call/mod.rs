//! Runtime sections: uses of the runtime by user code, noted in the execution mode of the fiber, so
//! that a death of its worker in between is understood.
//!
//! A function that can leave shared state half done takes an [`InCall`], the token of an open
//! section. So a public function that opens none does not compile:
//!
//! ```
//! use daiko_rt::call::Call;
//!
//! let call = Call::enter();
//! daiko_rt::wait::wake(call.token(), None);
//! ```
//!
//! ```compile_fail,E0061
//! daiko_rt::wait::wake(None);
//! ```
//!
//! User code that runs in the middle of a section borrows it exclusively: neither can that code use
//! the section's token, nor is an earlier token left behind it.
//!
//! ```
//! use daiko_rt::call::Call;
//!
//! let mut call = Call::enter();
//! call.user_code(|| daiko_rt::wait::wake(Call::enter().token(), None));
//! daiko_rt::wait::wake(call.token(), None);
//! ```
//!
//! ```compile_fail,E0502
//! # use daiko_rt::call::Call;
//! let mut call = Call::enter();
//! call.user_code(|| daiko_rt::wait::wake(call.token(), None));
//! ```
//!
//! ```compile_fail,E0502
//! # use daiko_rt::call::Call;
//! let mut call = Call::enter();
//! let token = call.token();
//! call.user_code(|| ());
//! daiko_rt::wait::wake(token, None);
//! ```
//!
//! A token ends with its section, and stays on its thread:
//!
//! ```compile_fail,E0505
//! # use daiko_rt::call::Call;
//! let call = Call::enter();
//! let token = call.token();
//! drop(call);
//! daiko_rt::wait::wake(token, None);
//! ```
//!
//! ```compile_fail,E0277
//! # use daiko_rt::call::Call;
//! let call = Call::enter();
//! let token = call.token();
//! std::thread::scope(|s| drop(s.spawn(move || daiko_rt::wait::wake(token, None))));
//! ```

pub(crate) mod item;
pub(crate) mod token;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use daiko_core::fiber::{ExecMode, Lent};
use daiko_sys::kernel_local;

pub use self::item::{Item, ItemKind};
pub use self::token::InCall;
use crate::fiber::ControlBlock;
use crate::process::is_active;
use crate::worker::{self, Worker};

kernel_local! {
    /// The execution mode of the blocking call that this pool thread makes; null: it makes none.
    static EXEC_MODE: Cell<*const ExecMode> = const { Cell::new(ptr::null()) };
}

/// Runs `make`, a call that blocks the calling thread, under the execution mode of that call. It
/// does not unwind.
pub(crate) fn with_exec_mode(exec_mode: &ExecMode, make: impl FnOnce()) {
    EXEC_MODE.with(|cell| cell.set(exec_mode));
    make();
    EXEC_MODE.with(|cell| cell.set(ptr::null()));
}

/// Returns the execution mode of the call that this thread makes, if it belongs to a pool.
#[cold]
fn exec_mode_of_thread() -> Option<&'static ExecMode> {
    if kernel_local::is_contexts() {
        // A fiber that acts as an agent.
        return None;
    }
    // SAFETY: the mode lies in the frame of the fiber that waits for this call, and only code
    // inside the call comes here.
    unsafe { EXEC_MODE.with(Cell::get).as_ref() }
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

/// Evaluates an expression in a runtime section: `in_call!(|call| ..)`, where `call` is the
/// [`InCall`]. For expressions that are so short that a guard would show where workers are threads,
/// or that have to be inlined there up to a switch. The expression must not leave the function.
#[doc(hidden)]
#[macro_export]
macro_rules! in_call {
    (|$call:ident| $body:expr) => {
        if $crate::call::notes_calls() {
            $crate::call::in_call_slow(|$call| $body)
        } else {
            // SAFETY: this is that macro.
            let $call = unsafe { $crate::call::InCall::unnoted() };
            $body
        }
    };
}

#[cold]
#[inline(never)]
pub fn in_call_slow<R>(body: impl FnOnce(InCall<'_>) -> R) -> R {
    let call = Call::enter();
    body(call.token())
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
        "a fiber uses the runtime outside of a Call"
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
pub(crate) fn fiber() -> Option<&'static ControlBlock> {
    worker::current()?.running()
}

#[inline(always)]
fn section_owner() -> (Option<&'static ControlBlock>, Option<&'static ExecMode>) {
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
    /// Begins a runtime section, which lasts until the result is dropped. For the top of each
    /// function by which users can leave shared state half done. Where workers are threads it costs
    /// a load and a branch.
    #[inline(always)]
    pub fn enter() -> Self {
        let (fiber, exec_mode) = if notes_calls() { section_owner() } else { (None, None) };
        let entered = exec_mode.filter(|exec_mode| exec_mode.enter(std::thread::panicking()));
        Call { fiber, entered: Cell::new(entered), not_send: PhantomData }
    }

    /// Returns the token of the section.
    #[inline(always)]
    pub fn token(&self) -> InCall<'_> {
        InCall::new()
    }

    /// Runs `code`, which is user code, in the middle of the section: nothing may be half done
    /// there. If the runtime catches a panic of it, it has to do so inside `code`, because a panic
    /// that passes here makes the section one that unwinds.
    #[inline]
    pub fn user_code<R>(&mut self, code: impl FnOnce() -> R) -> R {
        let _own = if notes_calls() { OwnCode::begin() } else { None };
        code()
    }

    /// Returns the fiber of the section, where workers are processes.
    #[inline(always)]
    pub(crate) fn fiber(&self) -> Option<&'static ControlBlock> {
        self.fiber.filter(|_| !cfg!(debug_assertions) || is_active())
    }

    /// Records that the caller, if it is no fiber but makes a blocking call, has gained an object
    /// that no recovery gives back: to the end of that call it stays in the section.
    #[inline]
    pub(crate) fn lasts(&self) {
        if self.fiber.is_none() {
            self.entered.set(None);
        }
    }
}

impl InCall<'static> {
    /// A token for a constant that is only reached by a token.
    pub(crate) const OF_A_CONSTANT: Self = InCall::new();
}

impl<'c> InCall<'c> {
    /// Returns the token for code of the runtime that runs on `worker`, or in its place, and is no
    /// part of a fiber's run: an agent, the scheduler between two fibers, the begin and the end of
    /// a fiber.
    #[inline(always)]
    pub fn agent(_worker: &'c Worker) -> Self {
        Self::outside_own_code()
    }

    /// Returns the token for other code of the runtime that is no part of a fiber's run: the
    /// monitor, the threads of blocking calls, the successor of a dead worker.
    #[inline(always)]
    pub(crate) fn off_fibers() -> Self {
        Self::outside_own_code()
    }

    /// Returns the token for a section that is not noted.
    ///
    /// # Safety
    ///
    /// The caller is [`in_call!`], or has found, since it was called last, that sections are not
    /// [noted](notes_calls), and uses the token before its return.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn unnoted() -> Self {
        debug_assert!(!notes_calls(), "a section that is to be noted");
        InCall::new()
    }

    #[inline(always)]
    fn outside_own_code() -> Self {
        assert_in_call();
        InCall::new()
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
