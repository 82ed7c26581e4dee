//! Selects the architecture. Its folder holds all the assembly but the requests to valgrind.

#[cfg(not(target_arch = "x86_64"))]
mod four_words;
mod fp_control;
mod stack_pointer;
#[cfg(not(target_arch = "x86_64"))]
mod thread_local_seat;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as of_processor;
#[cfg(target_arch = "riscv64")]
use riscv64 as of_processor;
#[cfg(target_arch = "x86_64")]
use x86_64 as of_processor;

#[cfg(all(daiko_sanitize, not(target_arch = "x86_64")))]
compile_error!("builds for a sanitizer need the red zone of x86-64: build without daiko_sanitize");

#[cfg(test)]
pub(crate) use of_processor::kernels;
pub(crate) use of_processor::{
    BLOCK, HAS_FAST_POINTER, first_hit, has_seat_register, occupant_by_register, seat_here,
    seat_of_context, seat_register, set_seat_register, set_thread_pointer, thread_pointer,
};
pub use of_processor::{
    FRAME, FpControl, OWN_FRAME, call_on, prefetch_write, prepare, prepare_own, switch, switch_fp,
    switch_own,
};
pub use stack_pointer::StackPointer;
