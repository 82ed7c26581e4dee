//! Ending what has become pointless: fibers unwind where they suspend.
//!
//! [`JoinHandle::cancel`](crate::JoinHandle::cancel) cancels one fiber. A cancel is raised as a panic
//! would be, with the payload [`Cancelled`], where the fiber is suspended or suspends next; destructors
//! run, locks are freed and not poisoned.
//!
//! [`CancelToken::run`] and [`time::timeout`](crate::time::timeout) do the same with a part of a fiber's
//! course: it is unwound out of that, and goes on. They nest; of those that are over, the outermost is left.

mod token;

use daiko_rt::fiber::{flag, is_any_scope_over};
use daiko_rt::worker::suspend;

pub use self::token::CancelToken;
pub use daiko_rt::fiber::Cancelled;

/// Runs `body`, in which the calling fiber is not unwound by a cancel, nor out of a
/// [`timeout`](crate::time::timeout) or [`CancelToken::run`] around it: that waits for its next
/// suspension outside. Those that are begun inside `body` end as ever.
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

/// Whether the calling fiber is cancelled, or a [`timeout`](crate::time::timeout) or
/// [`CancelToken::run`] around the call is over, so that it would unwind at its next suspension outside
/// of [`shield`]. For long computations; false outside of a fiber.
///
/// ```
/// # daiko::run(|| {
/// assert!(!daiko::cancel::is_cancelled());
/// # });
/// ```
pub fn is_cancelled() -> bool {
    suspend::try_caller().is_some_and(|(_, fiber)| {
        fiber.flags.get() & flag::CANCEL != 0
            || fiber.state.is_cancelled()
            || is_any_scope_over(fiber)
    })
}
