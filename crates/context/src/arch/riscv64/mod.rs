//! riscv64, the ABI LP64D.

mod scan;
mod switch;
pub(super) mod thread_register;

#[cfg(test)]
pub(crate) use scan::kernels;
pub use scan::prefetch_write;
pub(crate) use scan::{BLOCK, first_hit};
pub use switch::{FpControl, call_on, prepare, prepare_own, switch, switch_fp, switch_own};
pub(crate) use thread_register::thread_pointer;

pub use super::four_words::{FRAME, OWN_FRAME};
pub(crate) use super::thread_local_seat::{
    HAS_FAST_POINTER, has_seat_register, occupant_by_register, seat_here, seat_of_context,
    seat_register, set_seat_register, set_thread_pointer,
};
