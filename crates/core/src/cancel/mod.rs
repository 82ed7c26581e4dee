//! Cancel scopes: parts of a fiber's execution that a deadline or a signal may end early.
//!
//! README.md beside this file has the steps and the proof.

mod mark;
mod signal;

pub use mark::ScopeMark;
pub use signal::Signal;

#[cfg(all(test, loom))]
mod model;
