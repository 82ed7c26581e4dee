//! A channel for one message.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

use daiko_core::channel::{Oneshot, Party, Unsent};
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::Node;

use super::{RecvError, RecvTimeoutError, SendError, TryRecvError};
use daiko_rt::deadlock::{Kind, Target};
use daiko_rt::process;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Deadline, Ended, Object, Waiter};

/// A channel for one message.
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

/// The end of a [`oneshot`] channel that sends.
pub struct OneshotSender<T> {
    channel: Arc<Oneshot<T, WaiterId>>,
}

/// The end of a [`oneshot`] channel that receives.
pub struct OneshotReceiver<T> {
    pub(super) channel: Arc<Oneshot<T, WaiterId>>,
    /// One thread at a time receives, by whatever reference.
    not_sync: PhantomData<Cell<()>>,
}

// As in `std`: nobody unwinds out of a change of the channel.
impl<T> UnwindSafe for OneshotSender<T> {}
impl<T> RefUnwindSafe for OneshotSender<T> {}
impl<T> UnwindSafe for OneshotReceiver<T> {}
impl<T> RefUnwindSafe for OneshotReceiver<T> {}

impl<T> OneshotSender<T> {
    /// Sends the message. It does not wait.
    ///
    /// # Errors
    ///
    /// If there is no receiver any more; the error has the message.
    pub fn send(self, message: T) -> Result<(), SendError<T>> {
        let _call = process::call();
        // SAFETY: the only sender, and it goes by this.
        let sent = unsafe { self.channel.send(&ThisThread, message) };
        sent.map(wait::wake).map_err(SendError)
    }

    /// Whether there is no receiver any more.
    pub fn is_disconnected(&self) -> bool {
        self.channel.is_settled()
    }
}

impl<T> OneshotReceiver<T> {
    /// Receives the message, once it is there.
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

    /// As [`recv`](Self::recv), for at most `timeout`. Afterwards it can be called again.
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
    /// If it is not, or will not come.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let _call = process::call();
        // SAFETY: the only receiver, which is on one thread at a time.
        unsafe { self.channel.receive() }.map_err(|unsent| match unsent {
            Unsent::Pending => TryRecvError::Empty,
            Unsent::Closed => TryRecvError::Disconnected,
        })
    }

    fn receive(&self, deadline: impl FnOnce() -> Deadline) -> Result<T, RecvTimeoutError> {
        let _call = process::call();
        if !self.channel.is_settled() && !self.wait(deadline()) {
            return Err(RecvTimeoutError::Timeout);
        }
        self.try_recv().map_err(|_| RecvTimeoutError::Disconnected)
    }

    /// Waits until the message is there or will not come; false if the deadline passed.
    #[cold]
    fn wait(&self, deadline: Deadline) -> bool {
        let waiter = Waiter::caller("OneshotReceiver::recv");
        let node = Node::new(Party::alone(waiter.id()));
        // SAFETY: the node is new, and stays until it has left or is claimed.
        let queued = unsafe { self.channel.enqueue(&ThisThread, NonNull::from(&node)) };
        !queued || waiter.wait(&node, &AtOneshot(&self.channel), deadline) != Ended::TimedOut
    }
}

/// The queue of a channel for one message, as its receiver sees it.
struct AtOneshot<'c, T>(&'c Oneshot<T, WaiterId>);

impl<T> Object<Party<WaiterId>> for AtOneshot<'_, T> {
    unsafe fn leave(&self, node: NonNull<Node<Party<WaiterId>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.leave(&ThisThread, node) }
    }

    /// No other receiver could use it.
    fn give_way(&self, _: u8) -> bool {
        false
    }

    fn target(&self) -> Target {
        Target::new(Kind::Channel, self.0)
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let _call = process::call();
        wait::wake(self.channel.close(&ThisThread));
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        daiko_rt::in_call!(wait::wake(self.channel.close(&ThisThread)));
        // The destructor is the user's.
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
