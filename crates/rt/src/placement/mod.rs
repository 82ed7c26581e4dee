//! The placement of fibers: beside siblings, and where their packets are processed.

mod pairing;
mod siblings;
mod steering;

pub use self::pairing::{Class, set_class};
pub(crate) use self::siblings::Pairing;
pub use self::steering::{Placement, Steering};
