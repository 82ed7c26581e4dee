//! The handle of a fiber, and the functions that a fiber calls on itself.

use std::fmt;
use std::panic::Location;
use std::ptr::{self, NonNull};

use super::{ControlBlock, flag};
use crate::atomic::{AtomicPtr, Ordering};
use crate::deadline::Deadline;
use crate::process;
use crate::worker::{self, WakeRequest, Worker, suspend};

/// A handle to a fiber, like [`std::thread::Thread`] for a thread.
///
/// The memory of a fiber, including its stack, is kept until its last handle is dropped and its
/// worker has read the messages that were sent to it.
pub struct Fiber {
    block: NonNull<ControlBlock>,
    /// The fiber's worker, once this handle has seen it pinned there; null before. It spares an
    /// unpark from another worker the look at the block, a line of that other worker.
    home: AtomicPtr<Worker>,
}

// SAFETY: the handle reaches only fields that any thread may touch, or that were fixed at the
// spawn.
unsafe impl Send for Fiber {}
// SAFETY: as for Send.
unsafe impl Sync for Fiber {}

impl Fiber {
    /// Takes over one reference.
    pub(crate) fn from_block(block: NonNull<ControlBlock>) -> Self {
        Fiber { block, home: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    pub fn block(&self) -> &ControlBlock {
        // SAFETY: the handle is a reference, so the block is in use.
        unsafe { self.block.as_ref() }
    }

    /// Lets the fiber's [`park`] return: now, or when it is called next.
    ///
    /// Any thread may call it, at any time; it has no effect on a fiber that has ended. Everything
    /// before the unpark happens before the return of that park.
    #[inline]
    pub fn unpark(&self) {
        crate::in_call!(self.unpark_now());
    }

    #[inline(always)]
    fn unpark_now(&self) {
        // Relaxed: a hint that is right once it is not null, as workers outlive fibers.
        let home = self.home.load(Ordering::Relaxed);
        let current = worker::current();
        if home.is_null() || current.is_some_and(|worker| ptr::eq(worker, home)) {
            return self.unpark_known(current);
        }
        // SAFETY: the fiber is pinned to `home`, which lives as long as its block, and so as this
        // handle.
        worker::mail_pinned(current, unsafe { &*home }, self.block(), WakeRequest::UNPARK.message);
    }

    /// Unparks a fiber of the caller's own worker, or one that has not been seen pinned.
    #[inline]
    fn unpark_known(&self, current: Option<&Worker>) {
        self.deliver(current, WakeRequest::UNPARK);
    }

    #[inline]
    fn deliver(&self, current: Option<&Worker>, request: WakeRequest) {
        if !self.block().deliver_local(current, request.event)
            && let Some(home) = worker::send(current, self.block(), request)
        {
            self.home.store(ptr::from_ref(home).cast_mut(), Ordering::Relaxed);
        }
    }

    /// Makes the fiber unwind at the suspension that it is in, or its next one.
    pub(crate) fn cancel(&self) {
        let _call = process::call();
        self.deliver(worker::current(), WakeRequest::CANCEL);
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
        crate::in_call!(match self.home.get_mut().is_null() {
            true => self.block().release(),
            // An unpark may be under way to that worker.
            false => self.block().release_after_inline(),
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

/// Suspends the calling fiber until [`Fiber::unpark`] is called on it.
///
/// Like [`std::thread::park`]: an earlier unpark lets the park return at once, several unparks
/// count as one, and the caller checks its condition in a loop.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// use std::sync::atomic::{AtomicBool, Ordering};
/// static READY: AtomicBool = AtomicBool::new(false);
///
/// let waiter = daiko::spawn(|| {
///     while !READY.load(Ordering::Acquire) {
///         daiko::park();
///     }
/// });
/// READY.store(true, Ordering::Release);
/// waiter.fiber().unpark();
/// waiter.join().unwrap();
/// # });
/// ```
///
/// # Panics
///
/// If the caller is not a fiber, or is inside [`no_suspend`].
#[inline(always)]
#[track_caller]
pub fn park() {
    suspend::park();
}

/// Parks as [`park`] does, for at most `timeout`, like [`std::thread::park_timeout`].
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
/// As [`park`].
#[track_caller]
pub fn park_timeout(timeout: impl Into<Deadline>) {
    suspend::park_until("park_timeout", timeout.into());
}

/// Lets other runnable fibers of this worker run before the caller goes on.
///
/// # Panics
///
/// If the caller is not a fiber, or is inside [`no_suspend`].
#[inline(always)]
#[track_caller]
pub fn yield_now() {
    suspend::yield_now();
}

/// Runs `body`. If the calling fiber would suspend inside, it panics.
///
/// For code that keeps a value in thread-local storage, which the other fibers of the same worker
/// would see, or that holds a lock of `std` across calls of unknown code. A lock held over a
/// suspension may block the worker, or be poisoned by a neighbour that unwinds ([shared
/// state](crate#what-the-fibers-of-a-worker-share)). Outside of a fiber it only runs `body`.
///
/// # Panics
///
/// At each suspension point inside `body`, except while the thread is
/// [panicking](std::thread::panicking). If the caller unwinds, a second panic would end the
/// process; and a neighbour that is suspended while it unwinds cannot always be told apart from
/// that.
pub fn no_suspend<R>(body: impl FnOnce() -> R) -> R {
    match worker::try_caller() {
        Some((_, fiber)) => fiber.nested(flag::NO_SUSPEND, "no_suspend", body),
        None => body(),
    }
}
