//! Channels: values that pass from senders to receivers, and the queues of parties that wait.
//!
//! README.md beside this file has the protocols. Waiting and waking are the caller's job.

mod blocks;
mod buffered;
mod oneshot;
mod party;
mod rendezvous;
mod ring;
mod unbounded;

pub use buffered::Buffered;
pub use oneshot::{Oneshot, Unsent};
pub use party::{Party, Side};
pub use rendezvous::{LockedRendezvous, Meeting, MeetingSlot, Offer, Rendezvous};
pub use ring::RingBuffer;
pub use unbounded::Unbounded;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::Node;

/// A channel that holds values, with a queue of parties at each side that may have to wait.
///
/// A woken party looks again, and may find that another party was faster.
pub trait Stored<W> {
    /// The values in it.
    type Value;

    /// Sends `value` if there is room. Returns the waiter to wake, exactly once.
    fn send(
        &self,
        by: &impl Contender,
        value: Self::Value,
    ) -> Result<Option<W>, Refused<Self::Value>>;

    /// Receives a value if there is one. Returns it and the waiter to wake, exactly once.
    fn receive(&self, by: &impl Contender) -> Result<(Self::Value, Option<W>), Nothing>;

    /// Queues `node` at `side`, as the oldest if the party was claimed before; returns false if its
    /// waiter need not wait.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`](crate::wait::Locked::enqueue).
    #[must_use]
    unsafe fn enqueue(
        &self,
        side: Side,
        by: &impl Contender,
        node: NonNull<Node<Party<W>>>,
        was_claimed: bool,
    ) -> bool;

    /// Takes `node` out of the queue at `side`, unless it was claimed before.
    ///
    /// # Safety
    ///
    /// As for [`Locked::unlink`](crate::wait::Locked::unlink).
    unsafe fn leave(
        &self,
        side: Side,
        by: &impl Contender,
        node: NonNull<Node<Party<W>>>,
    ) -> Unlinked;

    /// Claims the first in line at `side`.
    #[must_use = "the waiter is to be woken"]
    fn next(&self, side: Side, by: &impl Contender) -> Option<W>;

    /// Closes the channel: from here on nothing can be sent. Returns true the first time. The
    /// waiters are to be woken: see [`next`](Self::next).
    fn close(&self, by: &impl Contender) -> bool;

    /// Returns true if it was closed.
    fn is_closed(&self) -> bool;

    /// Returns the number of values. The answer may be out of date at once.
    fn count(&self) -> usize;
}

/// The reason for which a value was not sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// The channel has no room.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

/// The reason for which no value was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// The channel has no value.
    Empty,
    /// The channel has no value, and none will come.
    Closed,
}

/// A store of values between senders and receivers. It also tells each side whether parties of the
/// other side are queued, through the exchange that every push and pop makes anyway.
pub trait Buffer {
    /// The values in it.
    type Value;

    /// Puts `value` in.
    fn push(&self, value: Self::Value) -> Result<Other, NotPushed<Self::Value>>;

    /// Takes the oldest value.
    fn pop(&self) -> Result<(Self::Value, Other), NotPopped>;

    /// Announces that a party is about to be queued until a pop; returns false if a push is
    /// possible now. Under the lock of that queue.
    #[must_use]
    fn announce_push(&self) -> bool;

    /// Announces that a party is about to be queued until a push; returns false if a pop is
    /// possible now, or nothing will be pushed any more. Under the lock of that queue.
    #[must_use]
    fn announce_pop(&self) -> bool;

    /// Takes the announcement of [`announce_push`](Self::announce_push) back. Under the lock of
    /// that queue.
    fn retract_push(&self);

    /// Takes the announcement of [`announce_pop`](Self::announce_pop) back. Under the lock of that
    /// queue.
    fn retract_pop(&self);

    /// Closes the buffer: from here on nothing can be pushed. Returns true the first time.
    fn close(&self) -> bool;

    /// Returns true if it was closed.
    fn is_closed(&self) -> bool;

    /// Returns the number of values. The answer may be out of date at once.
    fn count(&self) -> usize;
}

/// The state of the other side, as a push or pop finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Other {
    /// No party of it is queued.
    Runs,
    /// A party of it may be queued, and one is to be woken.
    Queued,
}

/// The reason for which a value was not pushed.
#[derive(Debug, PartialEq, Eq)]
pub enum NotPushed<T> {
    /// The buffer is full.
    Full(T),
    /// The channel is closed.
    Closed(T),
    /// Another party is about to have taken a value out: look again.
    Busy(T),
}

/// The reason for which no value was popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPopped {
    /// The buffer is empty.
    Empty,
    /// The buffer is empty, and no value will come.
    Closed,
    /// Another party is about to have put one in: look again.
    Busy,
}

/// Keeps the words of the two sides on separate lines, and pairs of lines.
#[repr(align(128))]
struct Apart<T>(T);

/// A place for a value; its user knows whether the value is there.
type Cell<T> = crate::atomic::UnsafeCell<MaybeUninit<T>>;
