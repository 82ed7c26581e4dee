//! The end of a call as a number, and the catch of unwinds.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use daiko::Cancelled;
use daiko_rt::fiber::ControlBlock;
use daiko_rt::{client, worker};

use crate::pointer::Code;

/// Returns the calling fiber.
#[inline(always)]
pub(crate) fn caller() -> Option<&'static ControlBlock> {
    // SAFETY: every caller uses it on its own thread, in the call in which it got it.
    unsafe { client::try_caller() }.map(|(_, fiber)| fiber)
}

/// Calls `make`, after which `errno` is as before: C code expects it to survive a lock.
///
/// The value is the fiber's own, but the system calls of the runtime write it.
#[inline(always)]
pub(crate) fn keep_errno<R>(make: impl FnOnce() -> R) -> R {
    // SAFETY: the call has no condition.
    let mut place = unsafe { libc::__errno_location() };
    // SAFETY: the place is that of the calling fiber or thread.
    let before = unsafe { *place };
    let result = make();
    if cfg!(daiko_sanitize) {
        // SAFETY: as above. In such a build the place is that of the worker.
        place = unsafe { libc::__errno_location() };
    }
    // SAFETY: as above; it moves along with a fiber that continues on another worker.
    unsafe { *place = before };
    result
}

/// Makes a call that does not wait, and returns its code.
#[inline(always)]
pub(crate) fn answer(call: impl FnOnce() -> Result<(), Code>) -> Code {
    keep_errno(|| catch(call))
}

#[inline(always)]
fn catch(call: impl FnOnce() -> Result<(), Code>) -> Code {
    match panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(payload) => code_of(payload),
    }
}

/// Makes a call that may wait, and returns its code.
///
/// A fiber that is cancelled gets `ECANCELED` at once, so that a cancel is not seen by chance only.
#[inline(always)]
pub(crate) fn wait(call: impl FnOnce() -> Result<(), Code>) -> Code {
    match caller() {
        Some(fiber) if !fiber.flags.has_any() => answer(call),
        caller => match refusal(caller) {
            None => answer(call),
            Some(code) => code,
        },
    }
}

/// Makes a call that may wait, and that only a fiber can make.
#[inline(always)]
pub(crate) fn wait_as_fiber(call: impl FnOnce() -> Result<(), Code>) -> Code {
    if caller().is_some() { wait(call) } else { libc::EPERM }
}

/// Returns the reason why the caller must not wait.
#[cold]
#[inline(never)]
fn refusal(caller: Option<&ControlBlock>) -> Option<Code> {
    match caller {
        Some(fiber) if fiber.flags.is_no_suspend() => Some(libc::EBUSY),
        Some(fiber) if fiber.flags.is_cancelled() => Some(libc::ECANCELED),
        None if worker::is_agent() => Some(libc::EPERM),
        _ => None,
    }
}

/// Returns the code of an unwind that was caught.
#[cold]
#[inline(never)]
pub(crate) fn code_of(payload: Box<dyn Any + Send>) -> Code {
    let is_cancel = payload.is::<Cancelled>();
    // Its drop cannot panic either: the payloads of this library are texts and `Cancelled`.
    drop(payload);
    if is_cancel { libc::ECANCELED } else { libc::ENOTRECOVERABLE }
}

/// Keeps panics about wrong uses, which become codes, from being printed. All other panics are
/// faults of Daiko, and are printed.
pub(crate) fn silence_wrong_uses() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_wrong_use =
                info.payload_as_str().is_some_and(|text| text.starts_with("daiko: "));
            if !is_wrong_use {
                before(info);
            }
        }));
    });
}
