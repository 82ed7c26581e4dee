//! Daiko's protocols over atomics: run state, queues, waits, watches, placement.

pub mod fiber;
mod sync;
