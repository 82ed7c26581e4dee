//! Rings of other libraries, each by its best primitive for the purpose.

mod channel;
pub(super) mod driver;
mod external;
mod may;
mod std_park;
mod tokio;

#[doc(hidden)]
pub use crate::kit::driver::first_error;
#[doc(hidden)]
pub use crate::kit::ring::program::read_reply;

use super::Method;
use super::kernel::harness::{gates, ports};
use crate::kit::argobots::ARGOBOTS;

/// All methods of this module, in the order of tables.
pub fn methods() -> Vec<Method> {
    let tokio = tokio::methods();
    let others = [
        gates::<std_park::StdPark>("std-park"),
        ports("crossbeam-channel", channel::open, None),
        may::method(),
        external::method("go", &external::GO),
        external::method(ARGOBOTS, &external::ARGOBOTS),
        external::method("boost-fiber", &external::BOOST_FIBER),
    ];
    tokio.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests;
