//! The worker of the calling thread.

use std::cell::Cell;
use std::ptr;

use super::state::Worker;
use crate::atomic::Ordering;
use crate::fiber::ControlBlock;

thread_local! {
    /// The worker of this kernel thread, or null.
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
    /// The same, if workers are processes. It is a separate cell because a read from the crates of
    /// users costs one more instruction.
    static OF_PROCESS: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// Makes the calling thread `worker`, which is a process of its own if `alone`.
pub(super) fn set(worker: &Worker, alone: bool) {
    CURRENT.set(worker);
    if alone {
        OF_PROCESS.set(worker);
    }
}

/// Makes the calling thread no worker any more.
pub(super) fn clear() {
    CURRENT.set(ptr::null());
    OF_PROCESS.set(ptr::null());
}

/// Returns the worker of the calling kernel thread.
///
/// Never inlined: a compiler may keep the address of a thread-local across a call, and so across a
/// suspension after which a migratable fiber runs on another thread.
#[inline(never)]
pub fn current() -> Option<&'static Worker> {
    // SAFETY: a worker lives while its thread runs; code on that thread does not outlive the
    // thread's `Worker::main`, which sets and clears the pointer.
    let worker = unsafe { CURRENT.get().as_ref() };
    // SAFETY: no instruction; it keeps the compiler from inferring that the function only reads, so
    // that two calls are never merged into one.
    unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
    worker
}

/// Returns the worker of the calling process, where workers are processes. Inlined: the thread
/// pointer is the same in all of them, so an address that the compiler keeps is right wherever the
/// caller goes on. A kept value would not be right, so it is read anew each time.
#[inline(always)]
pub(crate) fn current_of_process() -> Option<&'static Worker> {
    let worker = OF_PROCESS.with(Cell::as_ptr);
    // SAFETY: as for `current`; the cell exists as long as the calling thread.
    unsafe { worker.read_volatile().as_ref() }
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
