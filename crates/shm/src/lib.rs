//! Segments: memory that unrelated processes share, with named objects in it.
//!
//! This crate has the format and all operations that do not wait. [`daiko::shm`] has the objects of
//! the public API, for which fibers suspend and threads block.
//!
//! [`daiko::shm`]: https://docs.rs/daiko/latest/daiko/shm

mod bell;
mod directory;
mod error;
mod layout;
mod reaper;
mod segment;
mod table;

pub use bell::Bell;
pub use directory::Spec;
pub use error::{SegmentError, Table};
pub use layout::{MAX_ATTACHED, MAX_DOORBELLS, MAX_NAME, MAX_OBJECTS, MIN_BYTES};
pub use segment::{Bytes, Object, Segment, Shared};
