//! The thread pointer: `tpidr_el0`, which the ABI gives to thread-local storage.

use std::arch::asm;

/// Returns the thread pointer of the running context.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: it reads a register. Not `pure`: each call asks anew, as a suspension may change it.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags))
    };
    pointer
}

/// Sets the thread pointer of the running context.
///
/// # Safety
///
/// `pointer` is the thread pointer of a control block that no other thread runs with. Code that is
/// compiled into the caller keeps no address of a thread-local.
#[inline(always)]
pub(in crate::arch) unsafe fn write_thread_pointer(pointer: usize) {
    // SAFETY: by this function's contract. Not `nomem`: no access to a thread-local passes it.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) pointer, options(nostack, preserves_flags)) };
}
