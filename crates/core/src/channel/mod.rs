//! Channels: values that pass from who sends to who receives, and who waits for that.
//!
//! README.md beside this file has the protocols. Waiting and waking are the caller's job.

mod buffered;
mod chain;
mod oneshot;
mod party;
mod rendezvous;
mod ring;

pub use buffered::{Buffered, LockedSide, Nothing, Refused};
pub use chain::Chain;
pub use oneshot::{Oneshot, Unsent};
pub use party::{Choice, Party, Side};
pub use rendezvous::{LockedRendezvous, Meeting, Offer, Rendezvous, Slot};
pub use ring::Ring;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use std::mem::MaybeUninit;

/// Where values lie between who sends and who receives them, and what its two sides know of each other.
///
/// Of each side some may be queued, which the other side learns by the exchange that it makes anyway.
pub trait Buffer {
    /// What lies in it.
    type Value;

    /// Puts `value` in.
    fn push(&self, value: Self::Value) -> Result<Other, NotPushed<Self::Value>>;

    /// Takes the oldest value out.
    fn pop(&self) -> Result<(Self::Value, Other), NotPopped>;

    /// Says that somebody is about to be queued until a pop; false if a push is possible now.
    /// Under the lock of that queue.
    #[must_use]
    fn announce_push(&self) -> bool;

    /// Says that somebody is about to be queued until a push; false if a pop is possible now, or
    /// nothing will be pushed any more. Under the lock of that queue.
    #[must_use]
    fn announce_pop(&self) -> bool;

    /// Takes the one announcement back. Under the lock of that queue.
    fn nobody_pushes(&self);

    /// Takes the other announcement back. Under the lock of that queue.
    fn nobody_pops(&self);

    /// From here on nothing can be pushed. True the first time.
    fn close(&self) -> bool;

    /// Whether it was closed.
    fn is_closed(&self) -> bool;

    /// Values inside, in the eyes of whoever asks.
    fn count(&self) -> usize;
}

/// The other side, to who has pushed or popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Other {
    /// Nobody of it is queued.
    Runs,
    /// Somebody of it may be queued, and one is to be woken.
    Queued,
}

/// Why a value was not pushed.
#[derive(Debug, PartialEq, Eq)]
pub enum NotPushed<T> {
    /// It is full.
    Full(T),
    /// It is closed.
    Closed(T),
    /// Somebody is about to have taken a value out: look again.
    Busy(T),
}

/// Why no value was popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPopped {
    /// There is none.
    Empty,
    /// There is none, and none will come.
    Closed,
    /// Somebody is about to have put one in: look again.
    Busy,
}

/// Keeps what the two sides write on lines, and pairs of lines, of their own.
#[repr(align(128))]
struct Apart<T>(T);

/// A value that is there or not, which its user knows.
type Cell<T> = crate::sync::UnsafeCell<MaybeUninit<T>>;
