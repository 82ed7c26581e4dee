//! Calls that block their thread while the fiber is suspended.

use crate::caller;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::thread;

use daiko_rt::fiber::{ControlBlock, unwind};
use daiko_rt::jobs;
use daiko_rt::worker::{self, Worker};

/// Runs `f`, which may block its thread, on a thread of its own while the calling fiber is
/// suspended; the other fibers of the worker keep running.
///
/// It is meant for system calls that wait, locks of `std`, and long computations. `f` may borrow
/// from the caller. Outside of a fiber it only runs `f`. At most 512 such calls run at a time for
/// one runtime; further calls queue.
///
/// If no thread can be started for the call, as a limit is reached, it waits for one of the threads
/// that there are. If there is none at all, the fiber runs `f` itself: it blocks its worker
/// meanwhile, as any call does that is not passed to `blocking`, and
/// [`WorkerCounters::blocking_in_place`](crate::WorkerCounters::blocking_in_place) counts it. So
/// the call never fails.
///
/// `f` is not a fiber: its waits block its thread, no cancel ends it, and its spawns go to the
/// [default runtime](crate::default_runtime()), unless it names a runtime by
/// [`Runtime::spawn`](crate::Runtime::spawn).
///
/// Where workers are [processes](daiko_rt::process), it runs in the worker's process, and the limit
/// applies to each worker. If that process is killed before `f` has begun, `f` runs in its
/// successor. If `f` has ended, its result is kept. In between, `f` and the calling fiber are lost,
/// so that `f` never runs twice.
///
/// ```
/// # daiko::run(|| {
/// let text = String::from("daiko");
/// let len = daiko::blocking(|| {
///     std::thread::sleep(std::time::Duration::from_millis(1));
///     text.len()
/// });
/// assert_eq!(len, 5);
/// # });
/// ```
///
/// # Panics
///
/// If `f` panics, with its payload; or inside [`no_suspend`](crate::no_suspend) or a
/// [`Poller`](crate::agent::Poller).
#[doc(alias("spawn_blocking", "block_in_place", "unblock"))]
pub fn blocking<F, R>(f: F) -> R
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let Some((worker, fiber)) = caller::try_caller() else {
        worker::assert_no_poller("blocking");
        return f();
    };
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    match elsewhere(worker, fiber, f) {
        Ok(Ok(result)) => result,
        Ok(Err(payload)) => panic::resume_unwind(payload),
        Err(f) => in_place(f),
    }
}

/// Runs `f` on the worker of the calling fiber, as there is no other thread.
#[cold]
fn in_place<F: FnOnce() -> R, R>(f: F) -> R {
    if let Some((worker, _)) = caller::try_caller() {
        worker.counters.blocking_in_place.add(1);
    }
    f()
}

/// Runs `f` on another thread, while `fiber`, the caller, is suspended; gives `f` back if no thread
/// can be started.
fn elsewhere<F, R>(
    worker: &Worker,
    fiber: &'static ControlBlock,
    f: F,
) -> Result<thread::Result<R>, F>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let mut call = BlockingCall { f: Some(f), result: None };
    // SAFETY: the closure and its result are Send, and only the called thread uses them meanwhile.
    unsafe {
        jobs::run_elsewhere(
            worker,
            fiber,
            NonNull::from(&mut call).cast(),
            BlockingCall::<F, R>::run,
        );
    }
    match call.f {
        None => Ok(call.result.expect("a call that was begun has ended")),
        Some(f) => Err(f),
    }
}

/// A call on the stack of the fiber that waits for it.
struct BlockingCall<F, R> {
    f: Option<F>,
    result: Option<thread::Result<R>>,
}

impl<F: FnOnce() -> R, R> BlockingCall<F, R> {
    /// # Safety
    ///
    /// `this` points to a `BlockingCall<F, R>` that is not used elsewhere until the call's fiber is
    /// woken.
    unsafe fn run(this: NonNull<()>) {
        // SAFETY: by this function's contract.
        let call = unsafe { this.cast::<Self>().as_mut() };
        if let Some(f) = call.f.take() {
            call.result = Some(panic::catch_unwind(AssertUnwindSafe(f)));
        }
    }
}
