//! Tracking: whether the holders of locks are noted.

use super::report::Deadlock;
use crate::notes;

/// The user's hook for a report.
pub(crate) type DeadlockHook = Box<dyn Fn(&Deadlock) + Send + Sync>;

/// The search of a client that knows its waiters better than the runtime does, in place of that for
/// fibers.
#[derive(Clone, Copy)]
pub struct OwnSearch {
    /// Called at each look at the runtime.
    pub looks: fn(),
    /// Called when no fiber and no other thread goes on by itself, except in signal handlers. It
    /// gets the ids of the threads that are neither workers nor monitors, and returns a report.
    pub search: fn(&[u32]) -> Option<String>,
}

/// Turns the notes of locks on.
pub fn track() {
    notes::begin(notes::LOCKS);
}

/// The variable that asks for the notes.
pub(crate) const VARIABLE: &str = "DAIKO_TRACK_LOCKS";

/// Turns the notes off: where workers are processes, each would note in a table of its own a lock
/// that another process frees. Only while there is one thread, which removes its own notes: the
/// notes of another thread would be wrong when this is turned on again.
pub(crate) fn track_no_more() {
    notes::end(notes::LOCKS);
}

/// Returns true if the holders of locks are noted.
#[inline]
pub(crate) fn is_tracking() -> bool {
    notes::has(notes::LOCKS)
}
