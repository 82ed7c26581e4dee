//! Channels between fibers and threads: any number of both, at either end.
//!
//! Their interface is that of [`std::sync::mpsc`], except that receivers can be cloned: each
//! message goes to one of them. A fiber that has to wait suspends; any other thread blocks.
//!
//! | channel | holds | a send waits |
//! |---|---|---|
//! | [`bounded`] | so many messages | while it is full |
//! | [`rendezvous`] | none | until the message is received |
//! | [`unbounded`] | any number | never |
//! | [`oneshot`] | one, for good | never |
//!
//! Messages of one sender are received in the order in which they were sent.
//! [`select!`](crate::select!) waits for the first of several operations.
//!
//! When the last sender is gone, receivers get the remaining messages, and then an error. When the
//! last receiver is gone, the remaining messages are dropped, and senders get their messages back.
//!
//! Futures send and receive by [`send_async`](Sender::send_async),
//! [`recv_async`](Receiver::recv_async), and `await` on an [`OneshotReceiver`].
//!
//! A cancel unwinds out of a wait. A cancelled receiver loses no message, and a cancelled sender's
//! message is dropped unless it was received.

mod any;
mod errors;
mod future;
mod oneshot;
mod select;

use std::fmt;
use std::sync::Arc;

use self::any::{Any, CountedChannel};
pub use self::errors::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
pub use self::future::{RecvFuture, SendFuture};
pub use self::oneshot::{OneshotFuture, OneshotReceiver, OneshotSender, oneshot};
use daiko_rt::Deadline;
use daiko_rt::call::Call;

/// Creates a channel that holds at most `capacity` messages; with 0 it is a [`rendezvous`].
///
/// ```
/// use daiko::sync::channel;
///
/// daiko::run(|| {
///     let (sender, receiver) = channel::bounded(128);
///     daiko::spawn(move || (0..1000).for_each(|number| sender.send(number).unwrap()));
///     assert_eq!(receiver.iter().sum::<u32>(), 499_500);
/// });
/// ```
///
/// # Panics
///
/// If memory cannot hold so many messages.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    ends(if capacity == 0 { Any::rendezvous() } else { Any::bounded(capacity) })
}

/// Creates a channel that holds no message: a sender waits until a receiver has its message.
///
/// ```
/// use daiko::sync::channel;
///
/// daiko::run(|| {
///     let (sender, receiver) = channel::rendezvous();
///     let giver = daiko::spawn(move || sender.send("take this"));
///     assert_eq!(receiver.recv(), Ok("take this"));
///     assert_eq!(giver.join().unwrap(), Ok(()));
/// });
/// ```
pub fn rendezvous<T>() -> (Sender<T>, Receiver<T>) {
    ends(Any::rendezvous())
}

/// Creates a channel that holds any number of messages. Its memory grows with their number, and is
/// freed as they are received.
///
/// ```
/// use daiko::sync::channel;
///
/// let (sender, receiver) = channel::unbounded();
/// (0..1000).for_each(|number| sender.send(number).unwrap());
/// drop(sender);
/// assert_eq!(receiver.iter().count(), 1000);
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    ends(Any::unbounded())
}

fn ends<T>(any: Any<T>) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(CountedChannel::new(any));
    (Sender { channel: Arc::clone(&channel) }, Receiver { channel })
}

/// The sending end of a channel. It can be cloned, and used from several places.
pub struct Sender<T> {
    channel: Arc<CountedChannel<T>>,
}

/// The receiving end of a channel. It can be cloned, and used from several places.
pub struct Receiver<T> {
    channel: Arc<CountedChannel<T>>,
}

impl<T> Sender<T> {
    /// Sends `message`, once there is room for it or, at a rendezvous, a receiver.
    ///
    /// # Errors
    ///
    /// If there is no receiver any more; the error contains the message.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    #[inline(always)]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let sent =
            daiko_rt::in_call!(|call| self.channel.any.send(call, message, || Deadline::NEVER));
        sent.map_err(|error| SendError(error.into_inner()))
    }

    /// Sends `message` as [`send`](Self::send) does, but waits for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or there is no receiver any more; the error contains the message.
    ///
    /// # Panics
    ///
    /// As [`send`](Self::send).
    pub fn send_timeout(
        &self,
        message: T,
        timeout: impl Into<Deadline>,
    ) -> Result<(), SendTimeoutError<T>> {
        let call = Call::enter();
        self.channel.any.send(call.token(), message, || timeout.into())
    }

    /// Sends `message` if that is possible at once.
    ///
    /// # Errors
    ///
    /// If there is no room or, at a rendezvous, no receiver waits, or there is no receiver any
    /// more. The error contains the message.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        daiko_rt::in_call!(|call| self.channel.any.try_send(call, message))
    }

    /// Returns the future of a [`send`](Self::send), for any executor.
    ///
    /// ```
    /// use daiko::sync::channel;
    ///
    /// let (sender, receiver) = channel::bounded(1);
    /// let sends = daiko::spawn_future(async move {
    ///     for number in 0..10 {
    ///         sender.send_async(number).await.unwrap();
    ///     }
    /// });
    /// assert_eq!(receiver.iter().sum::<u32>(), 45);
    /// sends.join().unwrap();
    /// ```
    ///
    /// A future that is dropped has sent its message, or drops it.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// If the future is polled after it was ready.
    pub fn send_async(&self, message: T) -> SendFuture<'_, T> {
        SendFuture::new(self, message)
    }

    /// Returns true if there is no receiver any more.
    pub fn is_disconnected(&self) -> bool {
        self.channel.any.is_closed()
    }

    /// Returns the number of messages in the channel at this moment.
    pub fn len(&self) -> usize {
        self.channel.any.len()
    }

    /// Returns true if no message is in the channel at this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many messages the channel holds; `None` means any number.
    pub fn capacity(&self) -> Option<usize> {
        self.channel.any.capacity()
    }

    /// Returns true if both are ends of the same channel.
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

impl<T> Receiver<T> {
    /// Receives a message, once there is one.
    ///
    /// # Errors
    ///
    /// If there is none, and no sender any more.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        daiko_rt::in_call!(|call| self.channel.any.recv(call, || Deadline::NEVER))
            .map_err(|_| RecvError)
    }

    /// Receives a message as [`recv`](Self::recv) does, but waits for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or there is no message and no sender any more.
    ///
    /// # Panics
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_timeout(&self, timeout: impl Into<Deadline>) -> Result<T, RecvTimeoutError> {
        let call = Call::enter();
        self.channel.any.recv(call.token(), || timeout.into())
    }

    /// Receives a message if that is possible at once.
    ///
    /// # Errors
    ///
    /// If there is none or, at a rendezvous, no sender waits, or there is no sender any more.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        daiko_rt::in_call!(|call| self.channel.any.try_recv(call))
    }

    /// Returns the future of a [`recv`](Self::recv), for any executor. Futures wait in the same
    /// line as fibers and threads.
    ///
    /// ```
    /// use daiko::sync::channel;
    ///
    /// let (sender, receiver) = channel::bounded(8);
    /// let sum = daiko::spawn_future(async move {
    ///     let mut sum = 0;
    ///     while let Ok(number) = receiver.recv_async().await {
    ///         sum += number;
    ///     }
    ///     sum
    /// });
    /// (0..10).for_each(|number| sender.send(number).unwrap());
    /// drop(sender);
    /// assert_eq!(sum.join().unwrap(), 45);
    /// ```
    ///
    /// A future that is dropped leaves its message to other receivers. At a [`rendezvous`], the
    /// message of a sender that has met the future is dropped with it. A future that was woken and
    /// is not polled any more keeps its message from other receivers until it is dropped.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture::new(self)
    }

    /// Iterates over the messages, waiting for each, until there is no sender any more.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Iterates over the messages that are there at once.
    pub fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    /// Closes the channel for both sides while their ends exist. Messages that are in it can be
    /// received.
    #[doc(hidden)]
    pub fn close(&self) {
        let call = Call::enter();
        self.channel.any.close(call.token());
    }

    /// Returns true if this was the last receiver, which has closed the channel.
    fn leaves_alone(&self) -> bool {
        let call = Call::enter();
        let last = self.channel.receivers.leave();
        if last {
            self.channel.any.close(call.token());
        }
        last
    }

    /// Returns true if there is no sender any more. Messages may be left.
    pub fn is_disconnected(&self) -> bool {
        self.channel.any.is_closed()
    }

    /// Returns the number of messages in the channel at this moment.
    pub fn len(&self) -> usize {
        self.channel.any.len()
    }

    /// Returns true if no message is in the channel at this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many messages the channel holds; `None` means any number.
    pub fn capacity(&self) -> Option<usize> {
        self.channel.any.capacity()
    }

    /// Returns true if both are ends of the same channel.
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

/// Iterator over the messages of a [`Receiver`], until there is no sender any more.
#[derive(Debug)]
pub struct Iter<'r, T> {
    receiver: &'r Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

/// Iterator as [`Iter`], which owns its [`Receiver`].
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'r, T> IntoIterator for &'r Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'r, T>;

    fn into_iter(self) -> Iter<'r, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.senders.enter();
        Sender { channel: Arc::clone(&self.channel) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.channel.receivers.enter();
        Receiver { channel: Arc::clone(&self.channel) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let call = Call::enter();
        if self.channel.senders.leave() {
            self.channel.any.close(call.token());
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.leaves_alone() {
            let left = Left(self);
            left.0.try_iter().for_each(drop);
        }
    }
}

/// Drops all messages even if the destructor of one of them panics.
struct Left<'r, T>(&'r Receiver<T>);

impl<T> Drop for Left<'_, T> {
    fn drop(&mut self) {
        self.0.try_iter().for_each(drop);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
