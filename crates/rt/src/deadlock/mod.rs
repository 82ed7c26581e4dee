//! Deadlocks: the waiting fibers, their targets and the holders, once nothing can wake them any
//! more.
//!
//! Three parts:
//! 1. `held` notes the holder of each lock, so that a holder that locks it again panics.
//! 2. `target` notes the target of each fiber's wait, `thread_waits` that of a thread.
//! 3. `sampler` checks, on the monitor's thread, whether an idle runtime can ever go on, and
//!    `report` describes the result.
//!
//! The first costs a load and a branch while it is off: [`track`] turns it on, for the process and
//! for good. A client that notes waits by itself has a search of its own ([`OwnSearch`]).

pub mod held;
mod report;
pub mod sampler;
mod search;
mod target;
mod thread_waits;
mod tracking;

pub(crate) use self::held::LAYOUT as HELD_LAYOUT;
pub use self::held::{assert_not_held, freed, taken};
pub use self::report::{Awaited, Deadlock, Holder, WaitingFiber};
pub(crate) use self::sampler::{StuckSampler, as_a_peer};
pub(crate) use self::target::KIND_NAMES;
pub use self::target::{WaitKind, WaitTarget};
pub(crate) use self::thread_waits::LAYOUT as THREAD_WAITS_LAYOUT;
pub use self::thread_waits::thread_waits_for;
pub(crate) use self::tracking::{DeadlockHook, VARIABLE, track_no_more};
pub use self::tracking::{OwnSearch, track};
pub use daiko_core::inspect::cycles;
