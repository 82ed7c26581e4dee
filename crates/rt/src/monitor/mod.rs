//! The monitor thread.

mod active;
mod looks;
mod report;
mod state;

pub(crate) use self::active::{ActiveLooks, Cpus};
pub use self::report::{FiberGroup, Stuck};
pub(crate) use self::state::{Monitor, StuckHook};
