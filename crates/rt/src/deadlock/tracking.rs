//! Tracking: whether the holders of locks are noted.

use std::ffi::OsString;

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

/// Returns true if the environment asks for the notes, by `DAIKO_TRACK_LOCKS=1`.
///
/// # Errors
///
/// The value of that variable, if it is another one.
pub(crate) fn tracking_of_environment() -> Result<bool, OsString> {
    match std::env::var_os("DAIKO_TRACK_LOCKS") {
        None => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) => Err(value),
    }
}

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
