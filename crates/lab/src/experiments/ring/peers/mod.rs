//! Rings of other libraries, each by its best primitive for the purpose.

mod channel;
mod driver;
mod external;
mod std_park;
mod tokio;

#[doc(hidden)]
pub use crate::kit::driver::first_error;
#[doc(hidden)]
pub use driver::read_reply;

use super::{
    Method,
    kernel::harness::{Threads, gates},
};

/// All methods of this module, in the order of tables.
pub fn methods() -> Vec<Box<dyn Method>> {
    vec![
        Box::new(tokio::Tokio),
        Box::new(gates::<std_park::StdPark>("std-park")),
        Box::new(Threads::new("crossbeam-channel", channel::open)),
        Box::new(external::go()),
        Box::new(external::argobots()),
        Box::new(external::boost_fiber()),
    ]
}

#[cfg(test)]
mod tests;
