//! Calls that block their thread, while the fiber is suspended.
//!
//! Threads make them, started when needed and kept for a while: those of a `pool`, which wake the fibers themselves; or, where
//! workers are processes, the `staff` of a worker's `desk`, which the worker outlives.

mod desk;
mod pool;
mod staff;

use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

use daiko_core::blocking;

pub(crate) use self::desk::Desk;
pub(crate) use self::pool::BlockingPool;
use crate::deadlock::{Kind, Target};
use crate::fiber::{self, ControlBlock, unwind};
use crate::process;
use crate::worker::{self, Worker, suspend};

/// How long a thread waits for the next call before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The most threads of a runtime, or of a worker that is a process; further calls wait for one.
const MOST_THREADS: usize = 512;

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
/// Where workers are [processes](crate::process), it runs in the worker's process, and that limit is each worker's. If that is
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

/// Has a thread run `f`, while the fiber, which calls, is suspended; `None` if there can be no thread.
fn elsewhere<F, R>(worker: &Worker, fiber: &'static ControlBlock, f: F) -> Option<thread::Result<R>>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let _call = process::call();
    let mut call = Call { f: Some(f), result: None };
    let job = Job::new(Errand {
        call: NonNull::from(&mut call).cast(),
        run: Call::<F, R>::run,
        fiber: NonNull::from(fiber),
        desk: worker.runtime().options.processes.then_some(NonNull::from(worker)),
    });
    // SAFETY: the call borrows from this stack, and stays: not even a cancel ends the wait for it.
    unsafe { submit(worker, NonNull::from(&job)) };
    fiber.waiting_for(Target::of(Kind::Blocking), || suspend::absorb_wake(fiber));
    if job.is_lost() {
        // SAFETY: the caller is the fiber, below all of whose frames this is; none of them is come back to.
        unsafe { fiber::die(fiber, None) }
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

/// What a thread has to know of a call.
struct Errand {
    call: NonNull<()>,
    run: unsafe fn(NonNull<()>),
    fiber: NonNull<ControlBlock>,
    /// The worker at whose desk it was asked for, if that is a process: told of the end, even if the fiber was interrupted
    /// and has gone on waiting elsewhere.
    desk: Option<NonNull<Worker>>,
}

type Job = blocking::Job<Errand>;

/// Has a thread make the call, on behalf of `worker`, which calls.
///
/// # Safety
///
/// The job is new, and stays, as all that it leads to does, until its fiber is woken.
unsafe fn submit(worker: &Worker, job: NonNull<Job>) {
    let runtime = worker.runtime();
    // SAFETY: passed on to the caller.
    unsafe {
        if runtime.options.processes {
            worker.desk.ask(job);
        } else {
            runtime.blocking.submit(job);
        }
    }
}

/// Makes the call.
///
/// # Safety
///
/// The caller has the job alone, which stays until it is told of, and does not use it any more.
unsafe fn make(job: NonNull<Job>) {
    // SAFETY: it stays until it is told of, below.
    let this = unsafe { job.as_ref() };
    this.run(|course| {
        // SAFETY: the call lies on the stack of the fiber, which waits, and no other thread runs it.
        process::with_course(course, || unsafe { (this.payload().run)(this.payload().call) });
    });
    // SAFETY: by this function's contract.
    unsafe { tell(job) };
}

/// Has the fiber woken whose call it is: without a result, if that was not made.
///
/// # Safety
///
/// As for [`make`].
unsafe fn tell(job: NonNull<Job>) {
    // SAFETY: it stays until the fiber is woken.
    let Errand { fiber, desk, .. } = unsafe { job.as_ref() }.payload();
    // SAFETY: the fiber waits, so its block is in use; a worker lives as long as its runtime.
    unsafe {
        match desk {
            None => fiber.as_ref().wake(worker::current()),
            Some(desk) => desk.as_ref().call_is_over(job),
        }
    }
}
