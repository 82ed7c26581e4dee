//! Whether locks and waits are noted.

use std::sync::atomic::{AtomicBool, Ordering};

use super::report::Deadlock;

/// What the user wants done with a report.
pub(crate) type DeadlockHook = Box<dyn Fn(&Deadlock) + Send + Sync>;

/// Whether locks and waits are noted. Unset only while there is one thread, which strikes out what it has noted: what
/// another had noted by then would be wrong when this is set again.
static TRACKING: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// Has locks and waits noted from now on.
pub fn track() {
    TRACKING.store(true, Ordering::Relaxed);
}

/// Has nothing noted any more: where workers are processes, each would note in a table of its own what another
/// strikes out.
pub(crate) fn track_no_more() {
    TRACKING.store(false, Ordering::Relaxed);
}

/// Whether locks and waits are noted.
#[inline]
pub(crate) fn is_tracking() -> bool {
    // Relaxed: what was locked before it was seen is not known, which is allowed.
    TRACKING.load(Ordering::Relaxed)
}
