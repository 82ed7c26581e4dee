//! Tracking: whether locks and waits are noted.

use super::report::Deadlock;
use crate::atomic::{AtomicBool, Ordering};

/// The user's hook for a report.
pub(crate) type DeadlockHook = Box<dyn Fn(&Deadlock) + Send + Sync>;

/// True if locks and waits are noted. Reset only while there is one thread, which removes its own
/// notes: the notes of another thread would be wrong when this is set again.
static TRACKING: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// PickBudget the notes of locks and waits on.
pub fn track() {
    TRACKING.store(true, Ordering::Relaxed);
}

/// PickBudget the notes off: where workers are processes, each would note in a table of its own a
/// lock that another process frees.
pub(crate) fn track_no_more() {
    TRACKING.store(false, Ordering::Relaxed);
}

/// Returns true if locks and waits are noted.
#[inline]
pub(crate) fn is_tracking() -> bool {
    // Relaxed: a lock taken before the flag was seen is not known, which is allowed.
    TRACKING.load(Ordering::Relaxed)
}
