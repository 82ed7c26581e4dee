//! Selects the architecture. Its folder holds all the assembly.

mod x86_64;

pub(crate) use x86_64::{
    BLOCK, first_hit_avx2, first_hit_sse2, gs_base, has_fsgsbase, occupant_in_gs, seat_here,
    seat_of_context, set_gs_base, set_thread_pointer, thread_pointer,
};
pub use x86_64::{
    FRAME, FpControl, OWN_FRAME, StackPointer, prefetch_write, prepare, prepare_own, switch,
    switch_fp, switch_own,
};
