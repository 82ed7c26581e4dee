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

    /// Sends `value` if its place is ready: the fast path, which touches no line of the receivers
    /// otherwise. The error is the value; [`send`](Self::send) finds the reason.
    fn send_ready(&self, by: &impl Contender, value: Self::Value)
    -> Result<Option<W>, Self::Value>;

    /// Receives the oldest value if it is ready: the fast path, likewise.
    fn receive_ready(&self, by: &impl Contender) -> Option<(Self::Value, Option<W>)>;

    /// Returns true if an operation at `side` seems possible. For a caller that looks again and
    /// again: the answer comes from the line that the other side writes last.
    fn is_ready(&self, side: Side) -> bool;

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

impl<T> Refused<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        match self {
            Refused::Full(value) | Refused::Closed(value) => value,
        }
    }
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

    /// Puts `value` in, if its place is ready.
    fn push(&self, value: Self::Value) -> Result<Other, NotPushed<Self::Value>>;

    /// Takes the oldest value, if it is ready.
    fn pop(&self) -> Option<(Self::Value, Other)>;

    /// Returns true if the next push seems possible.
    fn is_push_ready(&self) -> bool;

    /// Returns true if the next pop seems possible.
    fn is_pop_ready(&self) -> bool;

    /// Returns true if there is no room. Otherwise another party is about to have taken a value
    /// out.
    fn is_full(&self) -> bool;

    /// Returns the reason why no value is there; `None` if another party is about to have put one
    /// in.
    fn nothing(&self) -> Option<Nothing>;

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
    /// The place of the next push is not ready: the buffer may be [full](Buffer::is_full).
    Unready(T),
    /// The channel is closed.
    Closed(T),
}

/// Keeps the words of the two sides on separate lines, and pairs of lines.
#[repr(align(128))]
struct Apart<T>(T);

/// A place for a value; its user knows whether the value is there.
type Cell<T> = crate::atomic::UnsafeCell<MaybeUninit<T>>;
