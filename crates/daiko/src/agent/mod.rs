//! Sources that agents poll besides the runtime's own.

pub(crate) mod pollers;

pub use pollers::{Poller, Registration, register};
