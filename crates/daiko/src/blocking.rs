//! Calls that block their thread, while the fiber is suspended.

use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::thread;

use daiko_rt::fiber::{ControlBlock, unwind};
use daiko_rt::jobs;
use daiko_rt::worker::{self, Worker, suspend};

/// Runs `f`, which may block its thread, on a thread of its own while the calling fiber is
/// suspended; the other fibers of the worker run on.
///
/// For system calls that wait, locks of `std`, and long computations. `f` may borrow from the
/// caller. Outside of a fiber it only runs `f`. At most 512 such calls run at a time for one
/// runtime; others wait for their turn.
///
/// `f` is no fiber: what it waits for blocks its thread, no cancel ends it, and what it spawns goes to the
/// [default runtime](crate::default_runtime()), unless it names one by
/// [`Runtime::spawn`](crate::Runtime::spawn).
///
/// Where workers are [processes](daiko_rt::process), it runs in the worker's process, and that limit is each worker's. If that is
/// killed before `f` has begun, `f` runs in its successor; behind its end the result is there; in between, `f` and the calling
/// fiber are lost, so that `f` never runs twice.
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
/// If `f` does, with its payload; inside [`no_suspend`](crate::no_suspend) or a
/// [`Poller`](crate::agent::Poller); or if no thread at all can be started for it.
pub fn blocking<F, R>(f: F) -> R
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let Some((worker, fiber)) = suspend::try_caller() else {
        worker::assert_no_poller("blocking");
        return f();
    };
    if fiber.flags.get() != 0 {
        unwind::before_suspension(fiber);
    }
    match elsewhere(worker, fiber, f) {
        Some(Ok(result)) => result,
        Some(Err(payload)) => panic::resume_unwind(payload),
        None => panic!("daiko::blocking: no thread could be started for the call; see ulimit -u"),
    }
}

/// Has a thread run `f`, while `fiber`, the caller, is suspended; returns `None` if there can be no thread.
fn elsewhere<F, R>(worker: &Worker, fiber: &'static ControlBlock, f: F) -> Option<thread::Result<R>>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let mut call = Call { f: Some(f), result: None };
    // SAFETY: the closure and its result are Send, and nothing else uses them meanwhile.
    unsafe {
        jobs::run_elsewhere(worker, fiber, NonNull::from(&mut call).cast(), Call::<F, R>::run);
    }
    call.result
}

/// A call on the stack of the fiber that waits for it.
struct Call<F, R> {
    f: Option<F>,
    result: Option<thread::Result<R>>,
}

impl<F: FnOnce() -> R, R> Call<F, R> {
    /// # Safety
    ///
    /// `this` points to a `Call<F, R>` that nobody else uses until the call's fiber is woken.
    unsafe fn run(this: NonNull<()>) {
        // SAFETY: by this function's contract.
        let call = unsafe { this.cast::<Self>().as_mut() };
        if let Some(f) = call.f.take() {
            call.result = Some(panic::catch_unwind(AssertUnwindSafe(f)));
        }
    }
}
