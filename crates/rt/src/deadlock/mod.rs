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
mod tracking;

pub use self::held::{assert_not_held, freed, taken};
pub(crate) use self::lookout::{Lookout, as_somebody};
pub use self::report::{Awaited, Deadlock, Holder, WaitingFiber};
pub use self::target::{Kind, Target};
pub use self::tracking::track;
pub(crate) use self::tracking::{DeadlockHook, is_tracking, track_no_more};
