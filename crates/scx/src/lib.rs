//! A scheduler for sched_ext under which wake-ups wait for their interrupt: as a kernel places woken tasks, or as P3 in ARCHITECTURE.md proposes.
//!
//! The scheduler itself is `src/bpf/follow.bpf.c`, which the kernel runs; here is what loads it, switches it, counts and records.
//! Without the feature `bpf` there is neither (`loader` is missing), only what can be said of a kernel without them.

mod counters;
mod ending;
mod error;
mod event;
mod kernel;
#[cfg(feature = "bpf")]
mod loader;
mod policy;
mod steering;

pub use counters::{COUNTERS, Counters};
pub use ending::Ending;
pub use error::Error;
pub use event::Event;
pub use kernel::{Kernel, MISSING, State};
#[cfg(feature = "bpf")]
pub use loader::{Attached, Recording, Running, start};
pub use policy::{DEFAULT_BOUND, Policy, Settings};
pub use steering::{Queue, Steering};

/// The name under which the kernel knows the scheduler.
pub const NAME: &str = "daiko_follow";
