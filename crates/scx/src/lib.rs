//! A scheduler for sched_ext by virtual time. Threads whose interrupt has not followed stay (P3 in
//! docs/papers.md), and stalling threads share cores with computing threads (P4), as chosen.
//!
//! The scheduler itself is `src/bpf/schedule.bpf.c`, which the kernel runs. This crate loads it,
//! changes its settings, declares classes of threads, reads its counters and records its decisions.
//! Without the feature `bpf` all of that is missing (`loader`); only the kernel's state can be
//! read.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("daiko-scx has been built and tested for x86-64 only");

mod counters;
mod ending;
mod error;
mod event;
mod kernel;
#[cfg(feature = "bpf")]
mod loader;
mod policy;
mod processor;
mod steering;

pub use counters::{COUNTERS, Counters};
pub use ending::Ending;
pub use error::Error;
pub use event::WakeEvent;
pub use kernel::{Kernel, MISSING, State};
#[cfg(feature = "bpf")]
pub use loader::{Attached, Classes, Recording, Running, start};
pub use policy::{DEFAULT_BOUND, Policy, Settings, Switch};
pub use processor::Processor;
pub use steering::{Queue, Steering};

/// The scheduler's name in the kernel.
pub const NAME: &str = "daiko";
