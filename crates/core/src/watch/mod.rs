//! Watches: words in memory that agents poll for fibers that wait until they hold a value.
//!
//! A *polled* watch ([`Notice::Polled`]) is looked at again and again, because its writer does not
//! announce changes ([`Notice::Elsewhere`]: from a CPU of its own). A *notified* watch
//! ([`Notice::Notified`]) is looked at when its writer notifies. A watch with a *doorbell*
//! ([`Notice::Doorbell`]) is polled until the agents sleep, and its writer wakes them. Conditions
//! are levels: a value that passes between two looks may be missed. README.md beside this file has
//! the steps and the proof.

mod area;
mod closing;
mod condition;
mod entry;
mod table;

pub use area::{Area, find_hit};
pub use closing::{Begun, Closing};
pub use condition::{Condition, WatchValue};
pub use entry::{EntryState, Notice, Probe, WatchEntry, WatchedWord};
pub use table::{Scan, WatchTable};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
