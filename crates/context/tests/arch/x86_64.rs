//! x86-64.

use std::arch::asm;

/// The mode that rounds up.
pub(crate) const ROUND_UP: u64 = 2 << 13;
/// The mode that rounds to the nearest.
pub(crate) const TO_NEAREST: u64 = 0;

/// The bits of MXCSR that choose a mode.
const MODE: u32 = 3 << 13;

/// Returns the mode of rounding.
pub(crate) fn rounding() -> u64 {
    u64::from(mxcsr() & MODE)
}

/// Sets the mode of rounding.
pub(crate) fn set_rounding(mode: u64) {
    let value = mxcsr() & !MODE | mode as u32;
    // SAFETY: the tests load values that differ in rounding only, and compute nothing before they
    // load another value.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &value) };
}

fn mxcsr() -> u32 {
    let mut value = 0u32;
    // SAFETY: writes four bytes to a local.
    unsafe { asm!("stmxcsr [{}]", in(reg) &mut value) };
    value
}

/// Clears bytes by an access that faults unless they are aligned to 16.
pub(crate) fn clear_aligned(value: &mut [u8; 16]) {
    // SAFETY: stores 16 bytes of zeros; faults if the compiler's belief about the stack is wrong.
    unsafe { asm!("movaps [{}], {}", in(reg) value, in(xmm_reg) 0f64) };
}

/// Returns the stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let pointer;
    // SAFETY: it reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Fills the callee-saved registers with a pattern, calls, and returns the bits that differ
/// afterwards.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn with_pattern(
    pattern: u64,
    call: unsafe extern "C" fn(*mut u8),
    arg: *mut u8,
) -> u64 {
    std::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        // With the return address these are eight words, which aligns the stack for the call.
        "push rdi",
        "lea rbx, [rdi + 1]",
        "lea rbp, [rdi + 2]",
        "lea r12, [rdi + 3]",
        "lea r13, [rdi + 4]",
        "lea r14, [rdi + 5]",
        "lea r15, [rdi + 6]",
        "mov rdi, rdx",
        "call rsi",
        "pop rdi",
        "sub rbx, 1",
        "sub rbp, 2",
        "sub r12, 3",
        "sub r13, 4",
        "sub r14, 5",
        "sub r15, 6",
        "xor eax, eax",
        "xor rbx, rdi",
        "or rax, rbx",
        "xor rbp, rdi",
        "or rax, rbp",
        "xor r12, rdi",
        "or rax, r12",
        "xor r13, rdi",
        "or rax, r13",
        "xor r14, rdi",
        "or rax, r14",
        "xor r15, rdi",
        "or rax, r15",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}
