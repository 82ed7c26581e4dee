//! The monitor thread.

pub(crate) mod active;
mod looks;
mod report;
mod state;

pub use self::report::{FiberGroup, Stuck};
pub(crate) use self::state::{Monitor, StuckHook};
