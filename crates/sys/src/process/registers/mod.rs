//! The registers with which a dead process is continued, one file per architecture.

#[cfg(not(target_arch = "x86_64"))]
mod lacking;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
use lacking as of_processor;
#[cfg(target_arch = "x86_64")]
use x86_64 as of_processor;

pub use of_processor::Registers;
pub(super) use of_processor::{ARE_KNOWN, instruction_of};
