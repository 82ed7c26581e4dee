//! Selects the architecture. Its file holds all the assembly.

mod x86_64;

pub(crate) use x86_64::{BLOCK, first_hit_avx2, first_hit_sse2};
pub use x86_64::{FpControl, StackPointer, prefetch_write, prepare, switch, switch_fp};
