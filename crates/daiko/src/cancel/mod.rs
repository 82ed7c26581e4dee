//! Cancellation of fibers and of parts of them: fibers unwind where they suspend.
//!
//! [`JoinHandle::cancel`](crate::JoinHandle::cancel) cancels one fiber. A cancel is raised like a
//! panic, with the payload [`Cancelled`], where the fiber is suspended or suspends next.
//! Destructors run; locks are freed and not poisoned. A destructor that panics meanwhile aborts the
//! process, as in any unwinding.
//!
//! [`CancelToken::run`] and [`time::timeout`](crate::time::timeout) do the same with a part of a
//! fiber: the fiber is unwound out of that part, and goes on. They nest; if several are over, the
//! fiber leaves the outermost.

mod token;

use crate::caller;
use daiko_rt::fiber::is_any_scope_over;

pub use self::token::CancelToken;
pub use daiko_rt::fiber::Cancelled;

/// Runs `body`, in which the calling fiber is not unwound by a cancel, nor out of a
/// [`timeout`](crate::time::timeout) or [`CancelToken::run`] around it: the unwinding is deferred
/// to its next suspension outside. Timeouts and runs that begin inside `body` end as usual.
///
/// Outside of a fiber it only runs `body`.
///
/// ```
/// use daiko::{JoinError, cancel};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static DONE: AtomicBool = AtomicBool::new(false);
///
/// daiko::run(|| {
///     let starter = daiko::current();
///     let careful = daiko::spawn(move || {
///         cancel::shield(|| {
///             starter.unpark();
///             daiko::yield_now();
///             DONE.store(true, Ordering::Release);
///         });
///         loop {
///             daiko::park();
///         }
///     });
///     daiko::park();
///     careful.cancel();
///     assert!(matches!(careful.join(), Err(JoinError::Cancelled)));
///     assert!(DONE.load(Ordering::Acquire));
/// });
/// ```
pub fn shield<R>(body: impl FnOnce() -> R) -> R {
    match caller::try_caller() {
        Some((_, fiber)) => fiber.flags.shield(body),
        None => body(),
    }
}

/// Returns true if the calling fiber is cancelled, or a [`timeout`](crate::time::timeout) or
/// [`CancelToken::run`] around the call is over, so that it would unwind at its next suspension
/// outside of [`shield`]. Meant for long computations. Returns false outside of a fiber.
///
/// ```
/// # daiko::run(|| {
/// assert!(!daiko::cancel::is_cancelled());
/// # });
/// ```
pub fn is_cancelled() -> bool {
    caller::try_caller().is_some_and(|(_, fiber)| {
        fiber.flags.is_cancelled() || fiber.state.is_cancelled() || is_any_scope_over(fiber)
    })
}
