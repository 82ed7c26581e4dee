//! One job, from its submission to its end.

use std::ptr::NonNull;
use std::time::Duration;

use super::queue::{CallJob, CallRecord};
use crate::call::{self, Call, InCall};
use crate::deadlock::{WaitKind, WaitTarget};
use crate::fiber::{self, ControlBlock};
use crate::worker::{self, Worker, suspend};

/// The time that a thread waits for the next call before it ends.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The maximum number of threads of a runtime, or of a worker process; further calls wait for a
/// thread.
pub(super) const MOST_THREADS: usize = 512;

/// Lets a thread call `run` with `call` on behalf of `fiber`, the caller, which waits on `worker`
/// meanwhile. The call is not made if no thread can be started for it.
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
    let section = Call::enter();
    let job = CallJob::new(CallRecord {
        call,
        run,
        fiber: NonNull::from(fiber),
        submissions: worker.runtime().options.processes.then_some(NonNull::from(worker)),
    });
    // SAFETY: the call borrows from this stack, and stays: not even a cancel ends the wait for it.
    unsafe { submit(section.token(), worker, NonNull::from(&job)) };
    fiber.waiting_for(WaitTarget::of(WaitKind::Blocking), || {
        suspend::absorb_wake(section.token(), fiber)
    });
    if job.is_lost() {
        // SAFETY: the caller is the fiber, on a frame below all of its own, none of which it
        // returns to.
        unsafe { fiber::die(fiber, None) }
    }
}

/// Submits the call on behalf of `worker`, the caller, for a thread to make it.
///
/// # Safety
///
/// The job is new. It stays, with everything that it points to, until its fiber is woken.
unsafe fn submit(section: InCall<'_>, worker: &Worker, job: NonNull<CallJob>) {
    let runtime = worker.runtime();
    // SAFETY: by this function's contract.
    unsafe {
        if runtime.options.processes {
            worker.submissions.ask(section, job);
        } else {
            runtime.blocking.submit(runtime.affinity.of_blocking_thread(), job);
        }
    }
}

/// Makes the call.
///
/// # Safety
///
/// The caller has the job alone, and does not use it afterwards. The job stays until its end is
/// reported.
pub(super) unsafe fn make(job: NonNull<CallJob>) {
    // SAFETY: it stays until its end is reported, below.
    let this = unsafe { job.as_ref() };
    this.run(|exec_mode| {
        // SAFETY: the call lies on the stack of the waiting fiber, and no other thread runs it.
        call::with_exec_mode(exec_mode, || unsafe { (this.payload().run)(this.payload().call) });
    });
    // SAFETY: by this function's contract.
    unsafe { tell(job) };
}

/// Reports the end of a call: its fiber is woken, without a result if the call was not made.
///
/// # Safety
///
/// As for [`make`].
pub(super) unsafe fn tell(job: NonNull<CallJob>) {
    // SAFETY: it stays until the fiber is woken.
    let CallRecord { fiber, submissions, .. } = unsafe { job.as_ref() }.payload();
    // SAFETY: the fiber waits, so its block is in use; a worker lives as long as its runtime.
    unsafe {
        match submissions {
            None => fiber.as_ref().wake(InCall::off_fibers(), worker::current()),
            Some(submissions) => submissions.as_ref().call_is_over(job),
        }
    }
}
