//! Cancel scopes: a part of a fiber's course that is to end early, by a time or by a word of somebody.
//!
//! README.md beside this file has the steps and the proof.

mod mark;
mod signal;

pub use mark::Mark;
pub use signal::Signal;

#[cfg(all(test, loom))]
mod model;
