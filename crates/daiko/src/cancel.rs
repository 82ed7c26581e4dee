//! Ending what has become pointless: fibers unwind where they suspend.
//!
//! [`JoinHandle::cancel`](crate::JoinHandle::cancel) cancels one fiber. A cancel is raised as a panic
//! would be, with the payload [`Cancelled`], where the fiber is suspended or suspends next; destructors
//! run, locks are freed and not poisoned.

use crate::fiber::flag;
use crate::worker::suspend;

pub use crate::fiber::Cancelled;

/// Runs `body`, in which the calling fiber is not unwound by a cancel: that waits for its next
/// suspension outside.
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
    match suspend::try_caller() {
        Some((_, fiber)) => fiber.nested(flag::SHIELD, "shield", body),
        None => body(),
    }
}

/// Whether the calling fiber is cancelled, so that it would unwind at its next suspension outside of
/// [`shield`]. For long computations; false outside of a fiber.
///
/// ```
/// # daiko::run(|| {
/// assert!(!daiko::cancel::is_cancelled());
/// # });
/// ```
pub fn is_cancelled() -> bool {
    suspend::try_caller().is_some_and(|(_, fiber)| {
        fiber.flags.get() & flag::CANCEL != 0 || fiber.state.is_cancelled()
    })
}
