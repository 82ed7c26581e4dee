//! The system calls of Daiko: futex, memory, files, descriptors, affinity, clocks, signals.
//!
//! All requests to Linux go through this crate, one subject per module. A function is safe where
//! the kernel keeps it safe; the `# Safety` section of any other function states the caller's
//! duties.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

#[cfg(not(target_os = "linux"))]
compile_error!("daiko-sys speaks to the Linux kernel directly and builds for Linux only");

pub mod alarm;
mod arch;
pub mod arena;
mod atomic;
pub mod cgroup;
pub mod clock;
pub mod counter_group;
pub mod counters;
pub mod cpu;
pub mod descriptor;
pub mod environment;
pub mod file;
pub mod futex;
pub mod generation;
pub mod kernel_local;
pub mod limits;
pub mod lock;
pub mod membarrier;
pub mod memory;
pub mod page_cache;
mod perf;
pub mod policy;
pub mod process;
pub mod processor;
pub mod requests;
pub mod sampling;
pub mod schedstat;
pub mod selector;
pub mod signal;
pub mod socket;
pub mod starts;
pub mod steering;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod thread;
pub mod topology;
pub mod user_dispatch;
pub mod user_wait;

/// The processes that use a piece of memory: this process alone, or several that share the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One process.
    Private,
    /// All processes that map it.
    Shared,
}
