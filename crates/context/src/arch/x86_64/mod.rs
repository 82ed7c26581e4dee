//! x86-64, System V ABI.

mod scan;
mod switch;
mod thread_register;

pub use scan::prefetch_write;
pub(crate) use scan::{BLOCK, first_hit_avx2, first_hit_sse2};
pub use switch::{
    FRAME, FpControl, OWN_FRAME, StackPointer, prepare, prepare_own, switch, switch_fp, switch_own,
};
pub(crate) use thread_register::{
    gs_base, has_fsgsbase, occupant_in_gs, seat_here, seat_of_context, set_gs_base,
    set_thread_pointer, thread_pointer,
};
