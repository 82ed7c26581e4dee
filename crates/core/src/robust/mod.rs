//! Objects in memory that processes share, which survive that one of them is killed at any instruction.
//!
//! README.md beside this file has the states, the steps and the proofs, and what callers owe. Nothing here waits: an
//! operation says that it has been done, or what has to change before it is worth another try, and whoever
//! makes room for others is told to ring for them.
//!
//! All is `#[repr(C)]` over atomics without a pointer, valid when zeroed, at any address. Contents are
//! trusted for what they say, never for where they point or for an end: whatever bits a peer writes, each operation
//! returns, within the memory that it was given.

mod event;
mod holder;
mod lane;
mod mutex;
mod round;
mod rwlock;
mod seat;
mod semaphore;
mod slots;

pub use event::Event;
pub use holder::Holder;
pub use lane::{Corrupt, Lane, NotReceived, NotSent, Receiver, Sender};
pub use mutex::{Found, Lock, Mutex, Unlock};
pub use round::Round;
pub use rwlock::{Reads, RwLock};
pub use seat::{Seat, Take};
pub use semaphore::{Acquire, Permit, Semaphore};
pub use slots::Slots;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// So often an exchange is tried again because the word has changed meanwhile. Honest peers do not come there; a
/// hostile one could keep somebody busy for ever.
const MOST_TRIES: usize = if cfg!(loom) { 4 } else { 64 };

/// What a word held when it was looked at, for whoever waits until it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

/// Lines of its own, two as processors fetch them in pairs.
#[repr(C, align(128))]
#[derive(Debug)]
struct Line<T>(T);
