//! A channel for one message.

use crate::caller;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use daiko_core::channel::{Oneshot, Party, Unsent};
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::Node;

use super::future::{Earlier, QueuePlace};
use super::{RecvError, RecvTimeoutError, SendError, TryRecvError};
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object};

/// Creates a channel for one message.
///
/// ```
/// use daiko::sync::channel;
///
/// daiko::run(|| {
///     let (sender, receiver) = channel::oneshot();
///     daiko::spawn(move || sender.send(42));
///     assert_eq!(receiver.recv(), Ok(42));
/// });
/// ```
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let channel = Arc::new(Oneshot::new());
    let sender = OneshotSender { channel: Arc::clone(&channel) };
    (sender, OneshotReceiver { channel, not_sync: PhantomData })
}

/// The sending end of a [`oneshot`] channel.
pub struct OneshotSender<T> {
    channel: Arc<Oneshot<T, WaiterId>>,
}

/// The receiving end of a [`oneshot`] channel.
pub struct OneshotReceiver<T> {
    pub(super) channel: Arc<Oneshot<T, WaiterId>>,
    /// Only one thread at a time receives, even by a shared reference.
    not_sync: PhantomData<Cell<()>>,
}

// As in `std`: no panic leaves a change of the channel half done.
impl<T> UnwindSafe for OneshotSender<T> {}
impl<T> RefUnwindSafe for OneshotSender<T> {}
impl<T> UnwindSafe for OneshotReceiver<T> {}
impl<T> RefUnwindSafe for OneshotReceiver<T> {}

impl<T> OneshotSender<T> {
    /// Sends the message without waiting.
    ///
    /// # Errors
    ///
    /// If there is no receiver any more; the error contains the message.
    pub fn send(self, message: T) -> Result<(), SendError<T>> {
        let call = Call::enter();
        let call = call.token();
        // SAFETY: this is the only sender, and the call consumes it.
        let sent = unsafe { self.channel.send(ThisThread::of(call), message) };
        sent.map(|receiver| wait::wake(call, receiver)).map_err(SendError)
    }

    /// Returns true if there is no receiver any more.
    pub fn is_disconnected(&self) -> bool {
        self.channel.is_settled()
    }
}

impl<T> OneshotReceiver<T> {
    /// Receives the message, waiting until it is there.
    ///
    /// # Errors
    ///
    /// If the sender is gone without having sent one.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn recv(self) -> Result<T, RecvError> {
        self.receive(|| Deadline::NEVER).map_err(|_| RecvError)
    }

    /// Receives the message as [`recv`](Self::recv) does, but waits for at most `timeout`. It can
    /// be called again afterwards.
    ///
    /// # Errors
    ///
    /// If the time is over, or the message will not come: it was received, or the sender is gone.
    ///
    /// # Panics
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_timeout(&self, timeout: impl Into<Deadline>) -> Result<T, RecvTimeoutError> {
        self.receive(|| timeout.into())
    }

    /// Receives the message, if it is there.
    ///
    /// # Errors
    ///
    /// If it is not there, or will not come.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let _call = Call::enter();
        // SAFETY: this is the only receiver, which is on one thread at a time.
        unsafe { self.channel.receive() }.map_err(|unsent| match unsent {
            Unsent::Pending => TryRecvError::Empty,
            Unsent::Closed => TryRecvError::Disconnected,
        })
    }

    fn receive(&self, deadline: impl FnOnce() -> Deadline) -> Result<T, RecvTimeoutError> {
        let call = Call::enter();
        if !self.channel.is_settled() && !self.wait(call.token(), deadline()) {
            return Err(RecvTimeoutError::Timeout);
        }
        self.try_recv().map_err(|_| RecvTimeoutError::Disconnected)
    }

    /// Waits until the message is there or will not come; returns false if the deadline passed.
    #[cold]
    fn wait(&self, call: InCall<'_>, deadline: Deadline) -> bool {
        let waiter = caller::waiter("OneshotReceiver::recv");
        let node = Node::new(Party::alone(waiter.id()));
        // SAFETY: the node is new, and stays in place until it has left or is claimed.
        let queued = unsafe { self.channel.enqueue(ThisThread::of(call), NonNull::from(&node)) };
        !queued || waiter.wait(call, &node, &AtOneshot(&self.channel), deadline) != Ended::TimedOut
    }
}

/// The queue of a channel for one message, as its receiver sees it.
struct AtOneshot<'c, T>(&'c Oneshot<T, WaiterId>);

impl<T> Object<Party<WaiterId>> for AtOneshot<'_, T> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<Party<WaiterId>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.leave(ThisThread::of(call), node) }
    }

    /// A wake has no other receiver to go to.
    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        false
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Channel, self.0)
    }
}

/// The future of a [`OneshotReceiver`]'s message.
#[must_use = "a future does nothing before it is polled"]
pub struct OneshotFuture<T> {
    place: QueuePlace<Party<WaiterId>>,
    receiver: OneshotReceiver<T>,
}

/// Receives the message in any executor, as [`recv`](OneshotReceiver::recv) does.
///
/// ```
/// use daiko::sync::channel;
///
/// let (sender, receiver) = channel::oneshot();
/// daiko::spawn(move || sender.send(42));
/// assert_eq!(daiko::block_on(receiver), Ok(42));
/// ```
impl<T> IntoFuture for OneshotReceiver<T> {
    type Output = Result<T, RecvError>;
    type IntoFuture = OneshotFuture<T>;

    fn into_future(self) -> OneshotFuture<T> {
        OneshotFuture { place: QueuePlace::new(), receiver: self }
    }
}

impl<T> Future for OneshotFuture<T> {
    type Output = Result<T, RecvError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of the place.
        let this = unsafe { self.get_unchecked_mut() };
        let (channel, waker) = (&*this.receiver.channel, context.waker());
        if let Earlier::Lasts = this.place.look(&AtOneshot(channel), waker) {
            return Poll::Pending;
        }
        let enqueue = |call: InCall<'_>, node: &Node<_>, _| {
            let by = ThisThread::of(call);
            // SAFETY: the node is in no queue, and is pinned until it has left or is claimed.
            let queued = unsafe { channel.enqueue(by, NonNull::from(node)) };
            (!queued).then_some(())
        };
        // SAFETY: pinned, and for this channel.
        let waits = |place: &mut QueuePlace<_>| unsafe { place.wait(waker, Party::alone, enqueue) };
        if !channel.is_settled() && waits(&mut this.place).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(this.receiver.try_recv().map_err(|_| RecvError))
    }
}

impl<T> Drop for OneshotFuture<T> {
    fn drop(&mut self) {
        self.place.leave(&AtOneshot(&self.receiver.channel));
    }
}

impl<T> fmt::Debug for OneshotFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotFuture").finish_non_exhaustive()
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let call = Call::enter();
        let call = call.token();
        wait::wake(call, self.channel.close(ThisThread::of(call)));
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        daiko_rt::in_call!(|call| wait::wake(call, self.channel.close(ThisThread::of(call))));
        // The destructor is user code.
        drop(self.try_recv());
    }
}

impl<T> fmt::Debug for OneshotSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OneshotReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotReceiver").finish_non_exhaustive()
    }
}
