//! The kernel thread of a worker.

use std::io;

use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::memory::{Mapping, MemoryError};
use daiko_sys::{Scope, signal};

use super::build_error::{BuildError, RefusedCall};

/// The settings that need `sched_setaffinity`.
const BOUND: &str = "RuntimeBuilder::cpus, bind, pairing and Placement::Follow";

/// The state of a worker's kernel thread, kept until the thread ends.
pub(crate) struct ThreadSetUp {
    /// The stack for the overflow report; `None` where the kernel refuses it.
    _alternate_stack: Option<signal::AltStack>,
}

/// Sets up a worker's kernel thread: its CPUs, unless it keeps those that it has, and a stack for
/// the overflow report. Where the kernel refuses that stack, an overflow ends the process by SIGSEGV,
/// without a report.
pub(crate) fn set_up_thread(cpus: Option<&CpuSet>) -> Result<ThreadSetUp, BuildError> {
    cpus.map_or(Ok(()), cpu::bind_current).map_err(|error| {
        BuildError::Refused(RefusedCall::new("sched_setaffinity", error, BOUND))
    })?;
    let alternate_stack = match signal::AltStack::install() {
        Ok(stack) => Some(stack),
        Err(MemoryError::Refused { .. }) => None,
        Err(error) => return Err(BuildError::Memory(error)),
    };
    Ok(ThreadSetUp { _alternate_stack: alternate_stack })
}

/// Returns the reason why no thread could be started: memory for its stack is refused with the same
/// error number as the thread is.
pub(crate) fn no_thread(error: io::Error) -> BuildError {
    match Mapping::new(STACK_OF_THREAD, Scope::Private) {
        Ok(_) => BuildError::Thread(error),
        Err(error) => BuildError::Memory(error),
    }
}

/// The size of a thread's stack, as `std` sets it.
const STACK_OF_THREAD: usize = 2 << 20;
