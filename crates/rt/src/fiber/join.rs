//! Joining: a wait for a fiber's end.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use super::waiter::{self, ThreadWaiter};
use super::{ControlBlock, Fiber, unwind};
use crate::call::{Call, InCall};
use crate::deadline::Deadline;
use crate::deadlock::{WaitKind, WaitTarget};
use crate::worker::suspend::{self, Resumed};
use crate::worker::{self, Worker};

/// The result that a fiber leaves for its join handle.
pub(super) type JoinOutcome<T> = Result<T, JoinError>;

/// The reason why a fiber has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The fiber panicked; the payload is that of [`std::thread::JoinHandle::join`].
    Panicked(Box<dyn Any + Send + 'static>),
    /// The fiber was unwound before its end: by [`JoinHandle::cancel`], or as its runtime shut
    /// down.
    Cancelled,
    /// The fiber is the caller, which would wait for itself for ever.
    Itself,
    /// The fiber resisted the shutdown of its runtime, and was left behind.
    Leaked,
    /// The process of the worker that ran it was killed. It stopped in the middle of its code:
    /// nothing was unwound, and its property is never freed. Only if [workers are
    /// processes](crate::process).
    WorkerDied,
    /// The calling process was forked from the one that runs the fiber, before the fiber had ended.
    Forked,
}

impl JoinError {
    /// Returns the payload of the panic.
    ///
    /// # Errors
    ///
    /// The error itself, if it was no panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self {
            JoinError::Panicked(payload) => Ok(payload),
            other => Err(other),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoinError::Panicked(_) => "the fiber panicked; JoinError::into_panic has the payload",
            JoinError::Cancelled => {
                "the fiber was cancelled, or unwound by the shutdown of its runtime: join it before"
            }
            JoinError::Itself => "a fiber cannot join itself; pass the handle to another",
            JoinError::Leaked => {
                "the fiber resisted the shutdown of its runtime; it must suspend, and resume the \
                 unwinding of daiko::Cancelled where it catches panics"
            }
            JoinError::Forked => {
                "the fiber runs in the parent, from which this process was forked; join it there"
            }
            JoinError::WorkerDied => {
                "the process of the worker that ran the fiber was killed; spawn another if its work is to be \
                 done again"
            }
        })
    }
}

impl std::error::Error for JoinError {}

/// The right to wait for a fiber's end and to take its result.
///
/// Dropping it detaches the fiber: it runs on, and its result is dropped.
pub struct JoinHandle<T> {
    fiber: Fiber,
    result: PhantomData<T>,
}

// SAFETY: the handle gives access to a `T` made on another thread, and to nothing else that is not
// safe to share.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: by reference the handle gives no access to the `T`.
unsafe impl<T> Sync for JoinHandle<T> {}

/// The end of a wait for a fiber's end.
enum Ended {
    /// The result is there.
    Done,
    /// The deadline has passed.
    TimedOut,
}

impl<T> JoinHandle<T> {
    /// Creates the only handle of a fiber; its packet has room for an `JoinOutcome<T>`.
    pub(super) fn new(fiber: Fiber) -> Self {
        JoinHandle { fiber, result: PhantomData }
    }

    /// Returns the fiber.
    pub fn fiber(&self) -> &Fiber {
        &self.fiber
    }

    /// Returns true if the fiber has ended, so that [`join`](Self::join) would return at once.
    pub fn is_finished(&self) -> bool {
        let completion = &self.fiber.block().completion;
        completion.is_done() || completion.is_dead()
    }

    /// Makes the fiber unwind, so that its destructors run and [`join`](Self::join) returns
    /// [`JoinError::Cancelled`]: at the suspension that it is in, or else at its next one. A fiber
    /// that has not started never starts; a fiber that ends before it suspends has its result.
    ///
    /// A cancel is not undone: a fiber that catches the unwind is unwound again where it suspends
    /// next, though never while it unwinds or inside `cancel::shield`. A destructor that panics
    /// while its fiber unwinds aborts the process, as in any unwinding. Any thread may call this,
    /// at any time. With `panic = "abort"` it does nothing.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// use daiko::JoinError;
    /// use std::time::Duration;
    ///
    /// let sleeper = daiko::spawn(|| daiko::park_timeout(Duration::from_secs(3600)));
    /// sleeper.cancel();
    /// assert!(matches!(sleeper.join(), Err(JoinError::Cancelled)));
    /// # });
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) {
        if cfg!(panic = "unwind") {
            self.fiber.cancel();
        }
    }

    /// Waits for the fiber's end: a fiber suspends, any other thread blocks.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// let answer = daiko::spawn(|| 6 * 7);
    /// assert_eq!(answer.join().unwrap(), 42);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// If the fiber panicked or was cancelled, if its worker's process was killed, if it is the
    /// caller itself, or if it runs in the parent of the calling process.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in an `agent::Poller`,
    /// which would keep its agent from polling.
    pub fn join(self) -> Result<T, JoinError> {
        let call = Call::enter();
        if !self.has_result() {
            self.wait(call.token(), Deadline::NEVER)?;
        }
        self.take()
    }

    /// Joins as [`join`](Self::join) does, but waits for at most `timeout`.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// use std::time::Duration;
    ///
    /// let sleeper = daiko::spawn(|| daiko::park_timeout(Duration::from_millis(1)));
    /// let sleeper = match sleeper.join_timeout(Duration::ZERO) {
    ///     Ok(outcome) => return outcome.unwrap(),
    ///     Err(handle) => handle,
    /// };
    /// sleeper.join().unwrap();
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// The handle, if the time is over and the fiber runs on; within the result as
    /// [`join`](Self::join).
    ///
    /// # Panics
    ///
    /// As [`join`](Self::join).
    pub fn join_timeout(self, timeout: impl Into<Deadline>) -> Result<Result<T, JoinError>, Self> {
        self.join_until(|| timeout.into())
    }

    fn join_until(self, deadline: impl FnOnce() -> Deadline) -> Result<Result<T, JoinError>, Self> {
        let call = Call::enter();
        if !self.has_result() {
            match self.wait(call.token(), deadline()) {
                Ok(Ended::Done) => {}
                Ok(Ended::TimedOut) => return Err(self),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(self.take())
    }

    fn has_result(&self) -> bool {
        self.fiber.block().completion.is_done()
    }

    /// Takes the result of a fiber that is done.
    fn take(self) -> Result<T, JoinError> {
        let block = self.fiber.block();
        let packet = block.packet.get().cast::<JoinOutcome<T>>();
        // SAFETY: the fiber is done, so the packet holds its result, which only this handle may
        // read; the handle does not drop it, as it is taken apart here.
        let outcome = unsafe { packet.read() };
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the fiber is read once.
        drop(unsafe { std::ptr::read(&raw const this.fiber) });
        outcome
    }

    #[inline(never)]
    fn wait(&self, call: InCall<'_>, deadline: Deadline) -> Result<Ended, JoinError> {
        let block = self.fiber.block();
        match worker::try_caller() {
            Some((_, fiber)) if std::ptr::eq(fiber, block) => return Err(JoinError::Itself),
            caller if block.is_inherited_by(caller.map(|(worker, _)| worker)) => {
                return Err(JoinError::Forked);
            }
            Some((worker, fiber)) => fiber
                .waiting_for(WaitTarget::new(WaitKind::Join, block), || {
                    wait_as_fiber(call, worker, fiber, block, deadline)
                }),
            None => {
                worker::assert_no_poller("join");
                wait_as_thread(block, deadline);
            }
        }
        if block.completion.is_done() {
            Ok(Ended::Done)
        } else if block.completion.is_abandoned() {
            Err(JoinError::Leaked)
        } else if block.completion.is_dead() {
            Err(JoinError::WorkerDied)
        } else {
            Ok(Ended::TimedOut)
        }
    }
}

fn wait_as_fiber(
    call: InCall<'_>,
    worker: &'static Worker,
    fiber: &ControlBlock,
    target: &ControlBlock,
    deadline: Deadline,
) {
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    let _ = worker.begin_awaited(call, target);
    let id = waiter::fiber_id(fiber);
    if !target.completion.wait(id) {
        return;
    }
    let resumed = suspend::wait_from(call, worker, fiber, deadline);
    if resumed != Resumed::Woken && target.completion.leave(id) {
        return unwind::raise(fiber);
    }
    if resumed != Resumed::Woken {
        suspend::absorb_wake(call, fiber);
    }
    // If both were cancelled and the target ended first, the caller still unwinds.
    if fiber.flags.has_any() {
        unwind::raise_own(fiber);
    }
}

fn wait_as_thread(target: &ControlBlock, deadline: Deadline) {
    let waiter = ThreadWaiter::this_thread();
    if target.completion.wait(waiter.id())
        && !waiter.block_until(deadline)
        && !target.completion.leave(waiter.id())
    {
        waiter.block();
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let block = self.fiber.block();
        // One exchange, and so no runtime section. The destructor is user code.
        if block.completion.detach() {
            // SAFETY: the fiber is done, so its result is there, and only this handle drops it.
            unsafe { (block.vtable.get().drop_result)(block.packet.get()) };
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("fiber", &self.fiber).finish_non_exhaustive()
    }
}
