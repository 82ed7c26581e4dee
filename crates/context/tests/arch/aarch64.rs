//! aarch64.

use std::arch::asm;

/// The mode that rounds up.
pub(crate) const ROUND_UP: u64 = 1 << 22;
/// The mode that rounds to the nearest.
pub(crate) const TO_NEAREST: u64 = 0;

/// The bits of FPCR that choose a mode.
const MODE: u64 = 3 << 22;

/// Returns the mode of rounding.
pub(crate) fn rounding() -> u64 {
    fpcr() & MODE
}

/// Sets the mode of rounding.
pub(crate) fn set_rounding(mode: u64) {
    let value = fpcr() & !MODE | mode;
    // SAFETY: the tests load values that differ in rounding only, and compute nothing before they
    // load another value.
    unsafe { asm!("msr fpcr, {}", in(reg) value) };
}

fn fpcr() -> u64 {
    let value;
    // SAFETY: it reads a register.
    unsafe { asm!("mrs {}, fpcr", out(reg) value) };
    value
}

/// Clears bytes that are aligned to 16.
pub(crate) fn clear_aligned(value: &mut [u8; 16]) {
    assert!((&raw const *value).addr().is_multiple_of(16));
    *value = [0; 16];
}

/// Returns the stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let pointer;
    // SAFETY: it reads a register.
    unsafe { asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
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
        "stp x29, x30, [sp, #-176]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "str x0, [sp, #160]",
        "add x19, x0, #1",
        "add x20, x0, #2",
        "add x21, x0, #3",
        "add x22, x0, #4",
        "add x23, x0, #5",
        "add x24, x0, #6",
        "add x25, x0, #7",
        "add x26, x0, #8",
        "add x27, x0, #9",
        "add x28, x0, #10",
        "add x29, x0, #11",
        "add x9, x0, #20",
        "fmov d8, x9",
        "add x9, x0, #21",
        "fmov d9, x9",
        "add x9, x0, #22",
        "fmov d10, x9",
        "add x9, x0, #23",
        "fmov d11, x9",
        "add x9, x0, #24",
        "fmov d12, x9",
        "add x9, x0, #25",
        "fmov d13, x9",
        "add x9, x0, #26",
        "fmov d14, x9",
        "add x9, x0, #27",
        "fmov d15, x9",
        "mov x9, x1",
        "mov x0, x2",
        "blr x9",
        "ldr x9, [sp, #160]",
        "mov x0, xzr",
        "sub x10, x19, #1",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x20, #2",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x21, #3",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x22, #4",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x23, #5",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x24, #6",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x25, #7",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x26, #8",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x27, #9",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x28, #10",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "sub x10, x29, #11",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "fmov x10, d8",
        "sub x10, x10, #20",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "fmov x10, d9",
        "sub x10, x10, #21",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "fmov x10, d10",
        "sub x10, x10, #22",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "fmov x10, d11",
        "sub x10, x10, #23",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "fmov x10, d12",
        "sub x10, x10, #24",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "fmov x10, d13",
        "sub x10, x10, #25",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "fmov x10, d14",
        "sub x10, x10, #26",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "fmov x10, d15",
        "sub x10, x10, #27",
        "eor x10, x10, x9",
        "orr x0, x0, x10",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #176",
        "ret",
    )
}
