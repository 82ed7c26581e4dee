//! Segments in real processes: invalid files, full tables, peers that die or write arbitrary
//! values.

#[path = "../../../../tests/child.rs"]
mod child;
#[path = "../../../../tests/segments.rs"]
mod segments;
mod support;

mod attach;
mod deaths;
mod files;
mod fork;
mod hostile;
mod messages;
mod objects;
mod truncated;
