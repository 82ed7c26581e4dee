//! The handle of a fiber, and the functions that a fiber calls on itself.

use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;

use daiko_core::fiber::{HomeHint, Transition};

use super::ControlBlock;
use crate::call::Call;
use crate::deadline::Deadline;
use crate::worker::{self, WakeRequest, Worker, suspend};

/// A handle to a fiber, like [`std::thread::Thread`] for a thread.
///
/// The memory of a fiber, including its stack, is kept until its last handle is dropped and its
/// worker has read the messages that were sent to it.
pub struct Fiber {
    block: NonNull<ControlBlock>,
    /// The worker to which this handle has seen the fiber pinned. Any thread that has the handle.
    pub(super) home: HomeHint<Worker>,
}

// SAFETY: the handle reaches only fields that any thread may touch, or that were fixed at the
// spawn.
unsafe impl Send for Fiber {}
// SAFETY: as for Send.
unsafe impl Sync for Fiber {}

impl Fiber {
    /// Takes over one reference.
    pub(crate) fn from_block(block: NonNull<ControlBlock>) -> Self {
        Fiber { block, home: HomeHint::new() }
    }

    #[inline]
    pub(crate) fn block(&self) -> &ControlBlock {
        // SAFETY: the handle is a reference, so the block is in use.
        unsafe { self.block.as_ref() }
    }

    /// Returns the control block.
    ///
    /// # Safety
    ///
    /// As for the [references](crate::client#safety) of `client`.
    #[doc(hidden)]
    pub unsafe fn control_block(&self) -> &ControlBlock {
        self.block()
    }

    /// Makes the fiber unwind at the suspension that it is in, or its next one.
    pub(crate) fn cancel(&self) {
        let call = Call::enter();
        let (call, current) = (call.token(), worker::current());
        if self.block().is_inherited_by(current) {
            return;
        }
        if !self.block().deliver_local(call, current, Transition::Cancel) {
            let _ = worker::send(call, current, self.block(), WakeRequest::CANCEL);
        }
    }

    /// Returns the name given by [`Builder::name`](crate::Builder::name).
    pub fn name(&self) -> Option<&str> {
        self.block().name()
    }

    /// Returns the source location that spawned the fiber.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.block().spawned_at.get()
    }
}

impl Clone for Fiber {
    fn clone(&self) -> Self {
        self.block().retain();
        Self::from_block(self.block)
    }
}

impl Drop for Fiber {
    #[inline]
    fn drop(&mut self) {
        crate::in_call!(|call| match self.home.is_known() {
            false => self.block().release(call),
            // An unpark may be under way to that worker.
            true => self.block().release_after_inline(call),
        });
    }
}

impl PartialEq for Fiber {
    fn eq(&self, other: &Self) -> bool {
        self.block == other.block
    }
}

impl Eq for Fiber {}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fiber")
            .field("name", &self.name())
            .field("spawned_at", &format_args!("{}", self.spawned_at()))
            .finish()
    }
}

/// Returns the calling fiber.
///
/// # Panics
///
/// If the caller is not a fiber; [`try_current`] returns `None` instead.
#[track_caller]
pub fn current() -> Fiber {
    let (_, fiber) = worker::caller("current");
    fiber.retain();
    Fiber::from_block(NonNull::from(fiber))
}

/// Returns the calling fiber, or `None` if the caller is not a fiber.
pub fn try_current() -> Option<Fiber> {
    let (_, fiber) = worker::try_caller()?;
    fiber.retain();
    Some(Fiber::from_block(NonNull::from(fiber)))
}

/// Parks as [`park`](crate::park) does, for at most `timeout`, like [`std::thread::park_timeout`].
///
/// It does not return the reason of its end: the caller checks its condition, and its clock, in a
/// loop.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// use std::time::{Duration, Instant};
///
/// let (start, timeout) = (Instant::now(), Duration::from_millis(1));
/// daiko::park_timeout(timeout);
/// assert!(start.elapsed() >= timeout);
/// # });
/// ```
///
/// # Panics
///
/// As [`park`](crate::park).
#[track_caller]
pub fn park_timeout(timeout: impl Into<Deadline>) {
    suspend::park_until("park_timeout", timeout.into());
}

/// Runs `body`. If the calling fiber would suspend inside, it panics.
///
/// For code that keeps a value in thread-local storage, which the other fibers of the same worker
/// would see, or that holds a lock of `std` across calls of unknown code. A lock held over a
/// suspension may block the worker, or be poisoned by a neighbour that unwinds ([shared
/// state](crate#kinds-of-fibers)). Outside of a fiber it only runs `body`.
///
/// # Panics
///
/// At each suspension point inside `body`, except while the thread is
/// [panicking](std::thread::panicking). If the caller unwinds, a second panic would end the
/// process; and a neighbour that is suspended while it unwinds cannot always be told apart from
/// that.
pub fn no_suspend<R>(body: impl FnOnce() -> R) -> R {
    match worker::try_caller() {
        Some((_, fiber)) => fiber.flags.no_suspend(body),
        None => body(),
    }
}
