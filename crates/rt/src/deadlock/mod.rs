//! Deadlocks: who waits for what, held by whom, once nothing can wake anyone any more.
//!
//! Three parts:
//! 1. `held` notes who holds which lock, so that who asks for one that he holds himself panics;
//! 2. `target` notes what a fiber waits for;
//! 3. `lookout` looks, on the monitor's thread, whether a runtime that rests can ever go on, and
//!    `report` says what it found.
//!
//! The first two cost a load and a branch where they are off: [`track`] turns them on, for the
//! process and for good.

pub mod held;
pub mod lookout;
mod report;
mod search;
mod target;

use std::sync::atomic::{AtomicBool, Ordering};

pub use self::held::{assert_not_held, freed, taken};
pub(crate) use self::lookout::{Lookout, as_somebody};
pub use self::report::{Awaited, Deadlock, Holder, WaitingFiber};
pub use self::target::{Kind, Target};

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
