//! The worker of the calling thread.

use std::ptr;

use daiko_context::seat::Seat;

use super::state::Worker;
use crate::atomic::Ordering;
use crate::fiber::ControlBlock;

/// Returns the worker of the calling kernel thread.
///
/// Read anew each time: a migratable fiber may have changed its worker at a suspension. It is found
/// by the seat of the kernel thread, since thread-locals belong to the fiber.
#[inline(always)]
pub fn current() -> Option<&'static Worker> {
    // SAFETY: only workers take seats, as occupants. A worker lives while its thread runs; code on
    // that thread does not outlive the thread's `Worker::main`, which leaves the seat.
    unsafe { Seat::occupant().cast::<Worker>().as_ref() }
}

/// Returns the worker of the calling kernel thread. Cheaper than [`current`].
///
/// # Safety
///
/// A worker's agent or a fiber calls.
#[inline(always)]
pub(crate) unsafe fn here() -> &'static Worker {
    // SAFETY: as in `current`; by this function's contract there is a worker.
    unsafe { &*Seat::occupant_here().cast::<Worker>() }
}

/// Returns the worker of the calling fiber; `None` in a child process that the fiber has forked,
/// where the kernel has cleared the seat.
///
/// # Safety
///
/// A fiber calls.
#[inline(always)]
pub(crate) unsafe fn here_unless_forked() -> Option<&'static Worker> {
    // SAFETY: as in `current`; by this function's contract there was a worker.
    unsafe { Seat::occupant_here().cast::<Worker>().as_ref() }
}

/// Calls `f` as an agent would: calls that need a fiber panic inside.
pub fn without_fiber<R>(f: impl FnOnce() -> R) -> R {
    let Some(worker) = current() else { return f() };
    let running = worker.running.swap(ptr::null_mut(), Ordering::Relaxed);
    let result = f();
    // Release: as in `set_running`.
    worker.running.store(running, Ordering::Release);
    result
}

/// Returns true if the caller is an agent. The only user code that runs on an agent is a poller.
pub fn is_agent() -> bool {
    current().is_some_and(|worker| worker.running().is_none())
}

/// Keeps pollers out of calls that would block their agent.
///
/// # Panics
///
/// If the caller is an agent: `operation` names the call.
pub fn assert_no_poller(operation: &str) {
    assert!(!is_agent(), "daiko: a poller must not wait in {operation}; unpark a fiber that does");
}

/// Returns the calling worker and fiber, if the caller is a fiber.
#[inline]
pub fn try_caller() -> Option<(&'static Worker, &'static ControlBlock)> {
    current()?.with_running()
}

/// Returns the calling worker and fiber.
///
/// # Panics
///
/// If the caller is not a fiber: `operation` names the call.
#[inline]
#[track_caller]
pub fn caller(operation: &str) -> (&'static Worker, &'static ControlBlock) {
    match try_caller() {
        Some(caller) => caller,
        None => not_a_fiber(operation),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn not_a_fiber(operation: &str) -> ! {
    panic!(
        "daiko: {operation} is for fibers, and this is not one; start it by daiko::run or daiko::spawn"
    )
}
