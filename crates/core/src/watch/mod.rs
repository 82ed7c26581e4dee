//! Watches: words in memory that agents sample for whoever waits until they hold a value.
//!
//! A *silent* watch is sampled, because its writer tells nobody; a *told* one is looked at when its
//! writer notifies; a *rung* one is sampled until the agents sleep, and its writer wakes them. Conditions are levels: a value that passes between two samples may be missed.
//! README.md beside this file has the steps and the proof.

mod area;
mod closing;
mod condition;
mod entry;
mod table;

pub use area::{Area, find_hit};
pub use closing::{Begun, Closing};
pub use condition::{Condition, Value};
pub use entry::{Entry, EntryState, Notice, Probe};
pub use table::{Scan, Table};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
