//! x86-64, System V ABI.

mod scan;
mod switch;
mod thread_register;

#[cfg(test)]
pub(crate) use scan::kernels;
pub use scan::prefetch_write;
pub(crate) use scan::{BLOCK, first_hit};
pub use switch::{
    FRAME, FpControl, OWN_FRAME, call_on, prepare, prepare_own, switch, switch_fp, switch_own,
};
pub(crate) use thread_register::{
    HAS_FAST_POINTER, has_seat_register, occupant_by_register, seat_here, seat_of_context,
    seat_register, set_seat_register, set_thread_pointer, thread_pointer,
};
