//! A channel for one value.

use std::ptr::NonNull;

use super::Party;
use crate::atomic::{Ordering, UnsafeCell, const_fn, unless_weakened};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Node, WaitQueue};

/// One value, from one sender to one receiver, which may wait for it.
///
/// Budget: one RMW to send, one load to receive a value that is there.
pub struct Oneshot<T, W> {
    /// The queue of the receiver. Its word is one of [`OPEN`], [`SENT`] and [`CLOSED`]; stored
    /// under the lock.
    queue: WaitQueue<Party<W>>,
    value: UnsafeCell<Option<T>>,
}

const OPEN: u32 = 0;
const SENT: u32 = 1;
const CLOSED: u32 = 2;

// SAFETY: the value is the sender's until the word says SENT, and then the receiver's.
unsafe impl<T: Send, W: Copy + Send> Send for Oneshot<T, W> {}
// SAFETY: as for Send.
unsafe impl<T: Send, W: Copy + Send> Sync for Oneshot<T, W> {}

/// The reason for which there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The value may come.
    Pending,
    /// The value will not come, or was received.
    Closed,
}

impl<T, W: Copy> Oneshot<T, W> {
    const_fn! {
        /// Creates an open channel.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self { queue: WaitQueue::new(OPEN), value: UnsafeCell::new(None) }
        }
    }

    /// Sends the value. Returns the waiter to wake, exactly once.
    ///
    /// # Errors
    ///
    /// Returns the value if the receiver has closed the channel.
    ///
    /// # Safety
    ///
    /// Only the sender, and once.
    pub unsafe fn send(&self, by: &impl Contender, value: T) -> Result<Option<W>, T> {
        let mut queue = self.queue.lock(by);
        // Relaxed: under the lock.
        if self.queue.word().load(Ordering::Relaxed) == CLOSED {
            return Err(value);
        }
        // SAFETY: nothing was sent, so the receiver leaves the value alone.
        self.value.with_mut(|slot| unsafe { *slot = Some(value) });
        // Release: pairs with the Acquire in `receive`.
        let release = unless_weakened!("oneshot-send", Ordering::Release);
        self.queue.word().store(SENT, release);
        Ok(queue.claim_first_that(0, |party| party.try_claim()).map(|party| party.waiter))
    }

    /// Takes the value, if it is there.
    ///
    /// # Safety
    ///
    /// Only the receiver.
    pub unsafe fn receive(&self) -> Result<T, Unsent> {
        // Acquire: pairs with the Release in `send`.
        match self.queue.word().load(Ordering::Acquire) {
            // SAFETY: sent, and this is the receiver.
            SENT => self.value.with_mut(|slot| unsafe { (*slot).take() }).ok_or(Unsent::Closed),
            OPEN => Err(Unsent::Pending),
            _ => Err(Unsent::Closed),
        }
    }

    /// Returns true if there is nothing to wait for: the value was sent, or the other end is gone.
    pub fn is_settled(&self) -> bool {
        // Relaxed: the word is used for this answer only.
        self.queue.word().load(Ordering::Relaxed) != OPEN
    }

    /// Queues the receiver until the value is sent, or can no longer come; returns false if that is
    /// so already.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`](crate::wait::Locked::enqueue).
    #[must_use]
    pub unsafe fn enqueue(&self, by: &impl Contender, node: NonNull<Node<Party<W>>>) -> bool {
        let mut queue = self.queue.lock(by);
        let waits = !self.is_settled();
        if waits {
            // SAFETY: passed on to the caller.
            unsafe { queue.enqueue(node) };
        }
        waits
    }

    /// Takes `node` out, unless it was claimed before.
    ///
    /// # Safety
    ///
    /// As for [`Locked::unlink`](crate::wait::Locked::unlink).
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<Party<W>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.queue.unlink(by, node) }
    }

    /// Closes the channel, for either end, which goes: nothing will be sent any more. Returns the
    /// waiter to wake, exactly once.
    #[must_use = "the waiter is to be woken"]
    pub fn close(&self, by: &impl Contender) -> Option<W> {
        // Without the lock: a settled channel stays so. Every sender comes here once more after
        // `send`.
        if self.is_settled() {
            return None;
        }
        let mut queue = self.queue.lock(by);
        // Again under the lock, which the sender may have held.
        if self.is_settled() {
            return None;
        }
        self.queue.word().store(CLOSED, Ordering::Relaxed);
        queue.claim_first_that(0, |party| party.try_claim()).map(|party| party.waiter)
    }
}
