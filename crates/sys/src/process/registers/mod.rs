//! The registers with which a dead process is continued, one file per architecture.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "lacking.rs")]
mod of_processor;

pub use of_processor::Registers;
pub(super) use of_processor::{ARE_KNOWN, instruction_of};
