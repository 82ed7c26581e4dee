//! Joining from a future.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use daiko_core::notice::{Enrolled, Enrollment};

use super::Fiber;
use super::join::{JoinError, JoinHandle, Joinable};
use super::waiter;

/// The future of a fiber's result: of `await` on a [`JoinHandle`].
///
/// Dropping it detaches the fiber, as dropping the handle does. Once it was ready, it is ready
/// again with [`JoinError::Taken`].
#[must_use = "a future does nothing before it is polled"]
pub struct JoinFuture<T> {
    handle: JoinHandle<T>,
    enrollment: Enrollment,
}

// No field is pinned: the result lies at the fiber.
impl<T> Unpin for JoinFuture<T> {}

impl<T> JoinFuture<T> {
    /// Returns the fiber.
    pub fn fiber(&self) -> &Fiber {
        self.handle.fiber()
    }

    /// Makes the fiber unwind, as [`JoinHandle::cancel`] does.
    pub fn cancel(&self) {
        self.handle.cancel();
    }
}

/// Waits for the fiber's end and takes its result, in any executor: in the tasks of other runtimes,
/// and in [`block_on`](crate::block_on).
///
/// ```
/// # use daiko_rt as daiko;
/// let answer = daiko::spawn(|| 6 * 7);
/// assert_eq!(daiko::block_on(async { answer.await.unwrap() }), 42);
/// ```
impl<T> IntoFuture for JoinHandle<T> {
    type Output = Result<T, JoinError>;
    type IntoFuture = JoinFuture<T>;

    fn into_future(self) -> JoinFuture<T> {
        JoinFuture { handle: self, enrollment: Enrollment::new() }
    }
}

impl<T> Future for JoinFuture<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            if let Some(end) = this.handle.take_end() {
                return Poll::Ready(end);
            }
            let completion = &this.handle.fiber().block().completion;
            // SAFETY: the enrollment hands the memory over with the id.
            let id = |held| unsafe { waiter::waker_id(held) };
            let enrolled = this.enrollment.enroll(completion, context.waker(), id);
            if enrolled == Enrolled::Waits {
                return Poll::Pending;
            }
        }
    }
}

impl<T> Drop for JoinFuture<T> {
    fn drop(&mut self) {
        self.enrollment.leave(&self.handle.fiber().block().completion);
    }
}

impl<T> fmt::Debug for JoinFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinFuture").field("fiber", self.fiber()).finish_non_exhaustive()
    }
}
