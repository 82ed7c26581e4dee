//! Facts from the dump of a test's own process.
//!
//! Tests of several crates include this file by its path.

/// Returns true if so many fibers wait.
pub(crate) fn are_waiting(count: usize) -> bool {
    let mut text = Vec::new();
    daiko::dump(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    text.lines().next().unwrap().contains(&format!("{count} waiting"))
}
