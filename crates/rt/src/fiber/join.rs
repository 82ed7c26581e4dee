//! Joining: a wait for a fiber's end.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;

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
    /// The result was taken before: a `select!` has joined the fiber.
    Taken,
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
            JoinError::Taken => {
                "the result was taken by a select! before; join once, for instance by an Option"
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
        completion.is_done() || completion.is_dead() || completion.is_detached()
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
    /// If the fiber panicked or was cancelled, if its worker's process was killed, if a `select!`
    /// has joined it before, if it is the caller itself, or if it runs in the parent of the calling
    /// process.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in an `agent::Poller`,
    /// which would keep its agent from polling.
    pub fn join(self) -> Result<T, JoinError> {
        let call = Call::enter();
        if !self.has_result() {
            self.wait(call.token(), Deadline::NEVER).expect("the deadline never passes")?;
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
                Some(Ok(())) => {}
                Some(Err(error)) => return Ok(Err(error)),
                None => return Err(self),
            }
        }
        Ok(self.take())
    }

    fn has_result(&self) -> bool {
        self.fiber.block().completion.is_done()
    }

    /// Takes the result of a fiber that is done.
    fn take(self) -> Result<T, JoinError> {
        // SAFETY: it is done; the handle does not drop the result, as it is taken apart here.
        let outcome = unsafe { self.read() };
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the fiber is read once.
        drop(unsafe { std::ptr::read(&raw const this.fiber) });
        outcome
    }

    /// Reads the result of a fiber that is done.
    ///
    /// # Safety
    ///
    /// The fiber is done, and its result is not used again.
    unsafe fn read(&self) -> Result<T, JoinError> {
        let packet = self.fiber.block().packet.get().cast::<JoinOutcome<T>>();
        // SAFETY: the packet holds the result, which only this handle may read, once: this
        // function's contract.
        unsafe { packet.read() }
    }

    /// Gives up the claim to the result, and drops it if it is there.
    fn detach(&self) {
        let block = self.fiber.block();
        // One exchange, and so no runtime section. The destructor is user code.
        if block.completion.detach() {
            // SAFETY: the fiber is done, so its result is there, and only this handle drops it.
            unsafe { (block.vtable.get().drop_result)(block.packet.get()) };
        }
    }

    /// Returns the end of the fiber, if it has come to one.
    fn end(&self) -> Option<Result<(), JoinError>> {
        let completion = &self.fiber.block().completion;
        if completion.is_done() {
            Some(Ok(()))
        } else if completion.is_abandoned() {
            Some(Err(JoinError::Leaked))
        } else if completion.is_dead() {
            Some(Err(JoinError::WorkerDied))
        } else {
            completion.is_detached().then_some(Err(JoinError::Taken))
        }
    }

    /// Returns the reason why the caller must not wait for the fiber.
    fn obstacle(&self, caller: Option<(&Worker, &ControlBlock)>) -> Option<JoinError> {
        let block = self.fiber.block();
        if caller.is_some_and(|(_, fiber)| std::ptr::eq(fiber, block)) {
            return Some(JoinError::Itself);
        }
        block.is_inherited_by(caller.map(|(worker, _)| worker)).then_some(JoinError::Forked)
    }

    /// Returns the end of the fiber, or `None` once the deadline has passed.
    #[inline(never)]
    fn wait(&self, call: InCall<'_>, deadline: Deadline) -> Option<Result<(), JoinError>> {
        let block = self.fiber.block();
        let caller = worker::try_caller();
        if let Some(error) = self.obstacle(caller) {
            return Some(Err(error));
        }
        match caller {
            Some((worker, fiber)) => fiber
                .waiting_for(WaitTarget::new(WaitKind::Join, block), || {
                    wait_as_fiber(call, worker, fiber, block, deadline)
                }),
            None => {
                worker::assert_no_poller("join");
                wait_as_thread(block, deadline);
            }
        }
        self.end()
    }
}

/// A handle of a fiber, for the joins of `select!`.
pub trait Joinable {
    /// The result of the fiber.
    type Output;

    /// Takes the result, if the fiber has ended, or cannot be waited for. Afterwards
    /// [`JoinHandle::join`] returns [`JoinError::Taken`].
    fn take_end(&mut self) -> Option<Result<Self::Output, JoinError>>;

    /// Publishes that `waiter` waits for the end. Returns false if there is nothing to wait for.
    ///
    /// # Safety
    ///
    /// The handle is not used for another wait until `waiter` is woken or has [left](Self::leave).
    #[must_use]
    unsafe fn wait(&self, waiter: WaiterId) -> bool;

    /// Takes back that `waiter` waits, unless the end has claimed the wait.
    fn leave(&self, waiter: WaiterId) -> Unlinked;
}

impl<T> Joinable for JoinHandle<T> {
    type Output = T;

    fn take_end(&mut self) -> Option<Result<T, JoinError>> {
        let Some(end) = self.end() else { return self.obstacle(worker::try_caller()).map(Err) };
        if let Err(error) = end {
            self.detach();
            return Some(Err(error));
        }
        // SAFETY: it is done, and the claim to the result is given up here.
        let outcome = unsafe { self.read() };
        let _ = self.fiber.block().completion.detach();
        Some(outcome)
    }

    unsafe fn wait(&self, waiter: WaiterId) -> bool {
        self.fiber.block().completion.wait(waiter)
    }

    fn leave(&self, waiter: WaiterId) -> Unlinked {
        match self.fiber.block().completion.leave(waiter) {
            true => Unlinked::Mine,
            false => Unlinked::AlreadyGone,
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
        && !waiter.block_until(deadline, || false)
        && !target.completion.leave(waiter.id())
    {
        waiter.block();
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.detach();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("fiber", &self.fiber).finish_non_exhaustive()
    }
}
