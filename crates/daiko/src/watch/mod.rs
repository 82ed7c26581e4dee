//! Waiting for a word in memory: any object that can be polled can be waited for.
//!
//! A watch is a word and a condition. Agents sample the word on behalf of the fiber, which is
//! suspended, and resume it when the condition holds. Conditions are *levels*: a value that comes
//! and goes between two samples may be missed. So wait for a lasting state, such as a counter that
//! has moved on ([`changed_from`]) or reached a mark ([`at_least`]).
//!
//! A *polled* watch ([`wait_until`]) needs no help of the writer, which may be a device, another
//! process or a plain store. While there is one, an agent samples the word:
//! [`Preset`](crate::Preset) says how often. A [`WatchBuilder`] says that the writer has a CPU of
//! its own, so that agents may spin for it on a single CPU. For a *notified* watch
//! ([`wait_until_notified`]) the writer calls [`notify`], and all agents may sleep meanwhile.
//!
//! A word may be of any width, and lie anywhere: in memory that another process writes as well,
//! such as the [`Words`](crate::shm::Words) of a segment, in a mapping, or in a device's memory.
//! The borrow keeps it mapped while a fiber waits. [`first`] waits for the first of several words.
//!
//! Many words that belong together are faster in a [`NotificationArea`], which may lie
//! [over](NotificationArea::over) a mapping or a segment, too.

mod area;
mod builder;
mod first;
mod single;
mod word;

pub use daiko_core::watch::Condition;

pub use self::area::{Closed, NotificationArea, Slot, SlotTimeoutError};
pub use self::builder::WatchBuilder;
pub use self::first::{Watched, first, first_timeout};
pub use self::single::{
    notify, notify_in, wait_until, wait_until_notified, wait_until_notified_timeout,
    wait_until_timeout,
};
#[doc(hidden)]
pub use self::single::{notify_at, select_wait_until, select_wait_until_notified};
pub use self::word::Word;

/// Returns the condition that the word differs from `old`.
pub fn changed_from<V>(old: V) -> Condition<V> {
    Condition::ChangedFrom(old)
}

/// Returns the condition that the word equals `value`.
pub fn equal<V>(value: V) -> Condition<V> {
    Condition::Equal(value)
}

/// Returns the condition that the word is at least `value`.
pub fn at_least<V>(value: V) -> Condition<V> {
    Condition::AtLeast(value)
}

/// Returns the condition that the word has at least one bit of `mask`.
pub fn any_bit<V>(mask: V) -> Condition<V> {
    Condition::AnyBit(mask)
}
