//! Decisions where fibers run: pure functions of the caller's observations, for runtime and
//! simulator alike; and the word in which the runtime keeps what they need of a fiber.

mod follow;
mod lifo_slot;
mod pair;
mod start;
mod wake;

pub use follow::{BOUND, Follow, Swaps, existing};
pub use lifo_slot::{LifoSlotWatch, SETTLED_NS, SlotSnapshot};
pub use pair::{
    Class, ClassWord, LOOKS, PASSES, POLITE_NS, SiblingUse, Site, Task, assign, can_cross,
    ends_look, gives_way, pick, wanted,
};
pub use start::{IMBALANCE_FLOOR, Least, StartPlace, least, start, start_against};
pub use wake::{Mobility, WakeTarget, wake};

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
