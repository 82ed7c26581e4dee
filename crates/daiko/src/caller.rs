//! The caller, as this crate uses it: with the contract of `daiko_rt::client` kept in one place.
//!
//! The functions of this crate that get such a reference use it on their own thread, in the call in
//! which they got it; after a suspension they ask for the worker again. What they keep for longer
//! is a pointer, beside a `Hold` of its runtime, or with a wait that it ends.

use daiko_rt::client;
use daiko_rt::fiber::ControlBlock;
use daiko_rt::runtime::{Runtime, RuntimeInner};
use daiko_rt::wait::Waiter;
use daiko_rt::worker::Worker;

/// Returns the worker of the calling thread.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Worker> {
    // SAFETY: by the rule of this module.
    unsafe { client::current() }
}

/// Returns the calling worker and fiber, if the caller is a fiber.
#[inline(always)]
pub(crate) fn try_caller() -> Option<(&'static Worker, &'static ControlBlock)> {
    // SAFETY: by the rule of this module.
    unsafe { client::try_caller() }
}

/// Returns the calling worker and fiber.
///
/// # Panics
///
/// If the caller is not a fiber: `operation` names the call.
#[inline(always)]
#[track_caller]
pub(crate) fn caller(operation: &str) -> (&'static Worker, &'static ControlBlock) {
    // SAFETY: by the rule of this module.
    unsafe { client::caller(operation) }
}

/// Returns the caller, after it has asked to wait.
///
/// # Panics
///
/// If it may not wait in `operation`.
#[inline(always)]
pub(crate) fn waiter(operation: &str) -> Waiter {
    // SAFETY: by the rule of this module.
    unsafe { Waiter::caller(operation) }
}

/// Returns the caller, which has to ask before it waits.
#[inline(always)]
pub(crate) fn unasked() -> Waiter {
    // SAFETY: by the rule of this module.
    unsafe { Waiter::unasked() }
}

/// Returns the caller as [`unasked`] does, and true if no other fiber is next on its worker.
#[inline(always)]
pub(crate) fn unasked_and_last() -> (Waiter, bool) {
    // SAFETY: by the rule of this module.
    unsafe { Waiter::unasked_and_last() }
}

/// Returns the runtime of the calling worker, or the default one.
#[inline]
#[track_caller]
pub(crate) fn runtime_of(here: Option<&Worker>) -> &RuntimeInner {
    // SAFETY: by the rule of this module.
    unsafe { client::runtime_of(here) }
}

/// Returns the shared part of a runtime.
#[inline]
pub(crate) fn inner(runtime: &Runtime) -> &RuntimeInner {
    // SAFETY: by the rule of this module.
    unsafe { runtime.inner() }
}
