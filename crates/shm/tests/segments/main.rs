//! Segments as processes meet them: files that are none, tables that are full, others that die or write what they like.

#[path = "../../../../tests/child.rs"]
mod child;
mod support;

mod attach;
mod deaths;
mod files;
mod fork;
mod hostile;
mod messages;
mod objects;
mod truncated;
