//! The threads of a runtime: their start, and the set-up of those of workers.

use std::thread::JoinHandle;

use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::memory::{self, Mapping, MemoryError};
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
/// the overflow report. Where the kernel refuses that stack, an overflow ends the process by
/// SIGSEGV, without a report.
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

/// Starts a thread of `std`. Such a thread ends the process if it finds no memory for its signal
/// stack, so that is looked for before.
pub(crate) fn start(
    name: impl Into<String>,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, BuildError> {
    memory::room_for_mappings(MAPPINGS_OF_THREAD).map_err(BuildError::Memory)?;
    std::thread::Builder::new().name(name.into()).spawn(body).map_err(|error| {
        // Refused memory for its stack has the same error number as a refused thread.
        match Mapping::new(STACK_OF_THREAD, Scope::Private) {
            Ok(_) => BuildError::Thread(error),
            Err(error) => BuildError::Memory(error),
        }
    })
}

/// Mappings of a thread: its stack, the alternate stacks of `std` and of the runtime, memory of
/// `malloc`, and their guards.
const MAPPINGS_OF_THREAD: usize = 8;
/// The size of a thread's stack, as `std` sets it.
const STACK_OF_THREAD: usize = 2 << 20;
