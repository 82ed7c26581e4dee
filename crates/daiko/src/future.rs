//! Futures of tokio in fibers (feature `tokio`).

use std::fmt;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Returns `future` in the context of a tokio runtime: its timers, sockets and tasks belong to that
/// runtime.
///
/// The context is entered at each poll, and at the drop of the future, and left again. So it does
/// not matter which executor polls the future, or on which thread. A fiber that has thread-locals
/// of its own may as well keep [`Handle::enter`]'s guard over the whole of a
/// [`block_on`](crate::block_on()). One that [borrows](crate::Builder::borrowed) those of its
/// worker may not, and must not suspend inside a poll.
///
/// A thread has to run that runtime, since no fiber polls its timers and sockets: threads of its
/// own (`new_multi_thread`), or one in its `block_on`.
///
/// ```
/// use daiko::future::with_tokio;
///
/// let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// let handle = tokio.handle().clone();
/// let fiber = daiko::spawn_future(with_tokio(&handle, async {
///     tokio::spawn(async { 6 * 7 }).await.unwrap()
/// }));
/// // This thread runs the task of tokio while it awaits the fiber.
/// assert_eq!(tokio.block_on(fiber.into_future()).unwrap(), 42);
/// ```
///
/// # Panics
///
/// The future panics if it is polled on a thread whose thread-locals are being destroyed.
pub fn with_tokio<F: IntoFuture>(handle: &Handle, future: F) -> WithTokio<F::IntoFuture> {
    WithTokio { handle: handle.clone(), future: ManuallyDrop::new(future.into_future()) }
}

/// The future of [`with_tokio`].
#[must_use = "a future does nothing before it is polled"]
pub struct WithTokio<F> {
    handle: Handle,
    /// Pinned with the whole; dropped in the context.
    future: ManuallyDrop<F>,
}

impl<F: Future> Future for WithTokio<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved: it is pinned below.
        let this = unsafe { self.get_unchecked_mut() };
        let _entered = this.handle.enter();
        // SAFETY: it is pinned with the whole, and dropped in place.
        unsafe { Pin::new_unchecked(&mut *this.future) }.poll(context)
    }
}

impl<F> Drop for WithTokio<F> {
    fn drop(&mut self) {
        let _entered = self.handle.enter();
        // SAFETY: it is dropped once, and not used again.
        unsafe { ManuallyDrop::drop(&mut self.future) };
    }
}

impl<F> fmt::Debug for WithTokio<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithTokio").finish_non_exhaustive()
    }
}
