//! Errors of a runtime with worker processes.

use std::{fmt, io};

/// The reason why a runtime with worker processes did not start. Nothing of it is left.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProcessError {
    /// The process has threads already; a forked process would find their locks and stacks in an
    /// arbitrary state.
    Threads {
        /// The number of threads, including the caller.
        count: usize,
    },
    /// A runtime of processes exists already, or a fiber of such a runtime calls.
    Nested,
    /// The global allocator is not a [`SharedHeap`](super::SharedHeap).
    NoSharedHeap,
    /// The program was built for a sanitizer, which knows the stacks of one process only.
    Sanitizer,
    /// The builder has a setting that processes cannot have.
    Option {
        /// The method of [`RuntimeBuilder`](crate::RuntimeBuilder).
        name: &'static str,
    },
    /// The kernel refused a process.
    Fork(daiko_sys::process::ProcessError),
    /// A process could not be set up.
    Start(io::Error),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads { count } => write!(
                f,
                "worker processes are forked from one thread, and there are {count}; build the runtime first \
                 thing in main"
            ),
            Self::Nested => f.write_str(
                "a program has one runtime at a time where workers are processes; shut that down before",
            ),
            Self::NoSharedHeap => f.write_str(
                "the program's objects are not shared with worker processes; declare #[global_allocator] static \
                 HEAP: daiko::process::SharedHeap = daiko::process::SharedHeap::new();",
            ),
            Self::Sanitizer => f.write_str(
                "a sanitizer knows the stacks of one process only; build without it, or use threads as workers",
            ),
            Self::Option { name } => {
                write!(f, "RuntimeBuilder::{name} is not possible with process_workers; leave it out")
            }
            Self::Fork(error) => write!(f, "a worker process could not be forked: {error}"),
            Self::Start(error) => write!(
                f,
                "a worker process could not be set up: {error}; it needs its CPUs, and memory for stacks"
            ),
        }
    }
}

impl std::error::Error for ProcessError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Fork(error) => Some(error),
            Self::Start(error) => Some(error),
            _ => None,
        }
    }
}
