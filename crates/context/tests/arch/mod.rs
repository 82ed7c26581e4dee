//! The assembly of tests, one file per architecture.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod of_processor;

pub(crate) use of_processor::{
    ROUND_UP, TO_NEAREST, clear_aligned, rounding, set_rounding, stack_pointer, with_pattern,
};
