//! Jobs: calls that block their thread, made by other threads while the fiber is suspended.
//!
//! Threads are started when needed and kept for a while: those of a `pool`, which wake the fibers themselves; or, where
//! workers are processes, the `staff` of a worker's `desk`, which the worker outlives. They belong to the runtime, as a
//! process starts the first of them before it becomes a worker.

mod desk;
mod pool;
mod staff;

use std::ptr::NonNull;
use std::time::Duration;

use daiko_core::blocking;

pub(crate) use self::desk::Desk;
pub(crate) use self::pool::BlockingPool;
use crate::deadlock::{Kind, Target};
use crate::fiber::{self, ControlBlock};
use crate::process;
use crate::worker::{self, Worker, suspend};

/// How long a thread waits for the next call before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The most threads of a runtime, or of a worker that is a process; further calls wait for one.
const MOST_THREADS: usize = 512;

/// Has a thread call `run` with `call`, on behalf of `fiber`, the caller, which waits on `worker` meanwhile.
/// The call is not made if no thread can be started for it.
///
/// # Safety
///
/// Any thread may call `run` with `call`, once, until this returns.
pub unsafe fn run_elsewhere(
    worker: &Worker,
    fiber: &'static ControlBlock,
    call: NonNull<()>,
    run: unsafe fn(NonNull<()>),
) {
    let _call = process::call();
    let job = Job::new(Errand {
        call,
        run,
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
