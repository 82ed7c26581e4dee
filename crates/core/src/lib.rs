//! Daiko's protocols over atomics: run state, queues, waits, watches, placement.

pub mod fiber;
pub mod list;
mod sync;
