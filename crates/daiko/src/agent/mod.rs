//! What agents poll besides the runtime's own sources.

pub(crate) mod pollers;

pub use pollers::{Poller, Registration, register};
