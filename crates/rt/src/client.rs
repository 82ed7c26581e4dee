//! The caller, for the crates above: its worker, its fiber, its runtime.
//!
//! A reference to a [`Worker`], a [`ControlBlock`] or a [`RuntimeInner`] is a capability. The
//! functions and fields that it leads to state which thread may use them, and when; they do not
//! check it. So these references come from `unsafe` functions only: those of this module,
//! [`Fiber::control_block`](crate::Fiber::control_block),
//! [`Runtime::inner`](crate::Runtime::inner), [`Waiter::caller`](crate::wait::Waiter::caller), and
//! [`ThisWorker::worker`](crate::runtime::kernel::ThisWorker::worker).
//!
//! # Safety
//!
//! The code that gets such a reference
//!
//! 1. hands it to no other thread, and keeps it no longer than the call in which it got it; a
//!    reference to a worker is not used after a suspension of a migratable fiber,
//! 2. uses it as each function or field says: "the caller" is the calling fiber, "here" the
//!    calling worker.
//!
//! ```compile_fail,E0603
//! let worker = daiko_rt::worker::current();
//! ```
//!
//! ```compile_fail,E0133
//! let worker = daiko_rt::client::current();
//! ```
//!
//! ```compile_fail,E0133
//! let waiter = daiko_rt::wait::Waiter::caller("safe code");
//! ```
//!
//! ```compile_fail,E0624
//! daiko_rt::run(|| daiko_rt::current().block().flags.has_any());
//! ```
//!
//! ```compile_fail,E0624
//! let runtime = daiko_rt::Runtime::builder().build().unwrap();
//! let workers = runtime.shared().workers();
//! ```
//!
//! An id of a waiter leads to such a block as well:
//!
//! ```compile_fail,E0423
//! let call = daiko_rt::call::Call::enter();
//! daiko_rt::wait::wake(call.token(), Some(daiko_core::fiber::WaiterId(64)));
//! ```
//!
//! The execution mode of a thread lies in the frame of the call:
//!
//! ```compile_fail,E0603
//! daiko_rt::call::with_exec_mode(&daiko_core::fiber::ExecMode::new(), || ());
//! ```

use std::panic::{self, AssertUnwindSafe};

use crate::fiber::ControlBlock;
use crate::runtime::{self, RuntimeInner};
use crate::worker::{self, Worker};

/// Returns the worker of the calling kernel thread.
///
/// # Safety
///
/// As for all [references](self#safety).
#[inline(always)]
pub unsafe fn current() -> Option<&'static Worker> {
    worker::current()
}

/// Returns the calling worker and fiber, if the caller is a fiber.
///
/// # Safety
///
/// As for all [references](self#safety).
#[inline(always)]
pub unsafe fn try_caller() -> Option<(&'static Worker, &'static ControlBlock)> {
    worker::try_caller()
}

/// Returns the calling worker and fiber.
///
/// # Safety
///
/// As for all [references](self#safety).
///
/// # Panics
///
/// If the caller is not a fiber: `operation` names the call.
#[inline(always)]
#[track_caller]
pub unsafe fn caller(operation: &str) -> (&'static Worker, &'static ControlBlock) {
    worker::caller(operation)
}

/// Returns the runtime of the calling worker, or the default one.
///
/// # Safety
///
/// As for all [references](self#safety).
#[inline]
#[track_caller]
pub unsafe fn runtime_of(here: Option<&Worker>) -> &RuntimeInner {
    runtime::of(here)
}

/// Calls `f` as an agent would: calls that need a fiber panic inside. The caller is a fiber again
/// once `f` has returned or unwound.
pub fn without_fiber<R>(f: impl FnOnce() -> R) -> R {
    match worker::without_fiber(|| panic::catch_unwind(AssertUnwindSafe(f))) {
        Ok(result) => result,
        Err(payload) => panic::resume_unwind(payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fiber_is_one_again_after_an_unwind_out_of_a_call_without_fiber() {
        crate::run(|| {
            let unwound = panic::catch_unwind(|| {
                without_fiber(|| {
                    assert!(crate::try_current().is_none());
                    panic!("out of the call");
                })
            });
            assert!(unwound.is_err() && crate::try_current().is_some());
            crate::yield_now();
        });
    }
}
