//! The monitor thread.

mod looks;
mod state;

pub use self::state::Stuck;
pub(crate) use self::state::{Monitor, StuckHook};
