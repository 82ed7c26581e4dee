//! Fuzz targets for all of Daiko that reads what others write: texts, bytes, words in memory.
//!
//! A target is a function of bytes that panics where it finds a fault. The binary runs one of them
//! under libFuzzer; a test feeds each its seeds.

mod targets;

pub use targets::{TARGETS, Target};
