//! Registers are taken over on x86-64 only: ptrace does not show a call's first argument elsewhere.

use crate::process::ProcessError;

/// False: no process is traced, as if the kernel refused it.
pub(in crate::process) const ARE_KNOWN: bool = false;

/// The registers of a thread, of which there are none.
#[derive(Clone, Debug)]
pub enum Registers {}

impl Registers {
    pub(in crate::process) fn of(_pid: u32) -> Result<Box<Self>, ProcessError> {
        Err(ProcessError::Refused { errno: libc::ENOSYS })
    }

    pub(in crate::process) fn put(&self, _pid: u32) -> Result<(), ProcessError> {
        match *self {}
    }

    /// The result of its last system call.
    #[cfg(test)]
    pub(in crate::process) fn result(&self) -> i64 {
        match *self {}
    }

    /// The lowest address of its stack's contents.
    pub fn stack_pointer(&self) -> usize {
        match *self {}
    }

    /// The address of the thread's thread-local storage.
    pub fn thread_pointer(&self) -> usize {
        match *self {}
    }
}

/// Returns the address of a stopped thread's next instruction.
pub(in crate::process) fn instruction_of(_thread: u32) -> Result<u64, ProcessError> {
    Err(ProcessError::Refused { errno: libc::ENOSYS })
}
