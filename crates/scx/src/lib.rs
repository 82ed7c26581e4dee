//! A scheduler for sched_ext under which woken threads wait for their interrupt. It places woken
//! tasks by the existing policy of kernels or by P3 in docs/papers.md.
//!
//! The scheduler itself is `src/bpf/follow.bpf.c`, which the kernel runs. This crate loads it,
//! switches its policy, reads its counters and records its decisions. Without the feature `bpf` all
//! of that is missing (`loader`); only the kernel's state can be read.

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
pub use event::WakeEvent;
pub use kernel::{Kernel, MISSING, State};
#[cfg(feature = "bpf")]
pub use loader::{Attached, Recording, Running, start};
pub use policy::{DEFAULT_BOUND, Policy, Settings};
pub use steering::{Queue, Steering};

/// The scheduler's name in the kernel.
pub const NAME: &str = "daiko_follow";
