//! Fuzz targets for all of Daiko's untrusted input: texts, bytes, words in memory.
//!
//! A target is a function of bytes that panics if it finds a fault. The binary runs one target
//! under libFuzzer; a test feeds each target its seeds.

mod targets;

pub use targets::{FuzzTarget, TARGETS};
