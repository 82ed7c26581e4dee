//! Stacks, context switch and word scan of Daiko, one file per architecture.
//!
//! [`switch`] leaves one stack for another, [`switch_own`] also one thread pointer for another,
//! [`prepare`] gives a fresh stack its first frame, [`call_on`] makes one call on another stack,
//! [`seat`] tells which worker runs a context, [`stack::Slab`] provides guarded stacks,
//! [`overflow`] reports the fiber that overflowed its stack, and [`scan`] looks for hits in
//! adjacent words.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    target_endian = "little",
    target_pointer_width = "64",
    target_os = "linux"
)))]
compile_error!("daiko-context has its assembly for Linux on x86-64, aarch64 and riscv64 only");

mod arch;
mod atomic;
pub mod overflow;
#[cfg(daiko_sanitize)]
mod sanitizer;
pub mod scan;
pub mod seat;
pub mod stack;
mod valgrind;

pub use arch::{
    FRAME, FpControl, OWN_FRAME, StackPointer, call_on, prefetch_write, prepare, prepare_own,
    switch, switch_fp, switch_own,
};

/// Notes that the calling context is never resumed after its next switch. Only a sanitizer learns
/// of it: without one this does nothing.
///
/// # Safety
///
/// Nothing resumes the context after its next switch, and [`prepare`] made it.
#[inline(always)]
pub unsafe fn ends() {
    #[cfg(daiko_sanitize)]
    // SAFETY: by this function's contract.
    unsafe {
        sanitizer::ends();
    }
}
