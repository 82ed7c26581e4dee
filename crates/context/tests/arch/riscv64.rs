//! riscv64.

use std::arch::asm;

/// The mode that rounds up.
pub(crate) const ROUND_UP: u64 = 3;
/// The mode that rounds to the nearest.
pub(crate) const TO_NEAREST: u64 = 0;

/// Returns the mode of rounding.
pub(crate) fn rounding() -> u64 {
    let mode;
    // SAFETY: it reads a register.
    unsafe { asm!("frrm {}", out(reg) mode) };
    mode
}

/// Sets the mode of rounding.
pub(crate) fn set_rounding(mode: u64) {
    // SAFETY: the tests load modes, and compute nothing before they load another one.
    unsafe { asm!("fsrm {}", in(reg) mode) };
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
    unsafe { asm!("mv {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
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
        "addi sp, sp, -224",
        "sd ra, 0(sp)",
        "sd s0, 8(sp)",
        "sd s1, 16(sp)",
        "sd s2, 24(sp)",
        "sd s3, 32(sp)",
        "sd s4, 40(sp)",
        "sd s5, 48(sp)",
        "sd s6, 56(sp)",
        "sd s7, 64(sp)",
        "sd s8, 72(sp)",
        "sd s9, 80(sp)",
        "sd s10, 88(sp)",
        "sd s11, 96(sp)",
        "fsd fs0, 104(sp)",
        "fsd fs1, 112(sp)",
        "fsd fs2, 120(sp)",
        "fsd fs3, 128(sp)",
        "fsd fs4, 136(sp)",
        "fsd fs5, 144(sp)",
        "fsd fs6, 152(sp)",
        "fsd fs7, 160(sp)",
        "fsd fs8, 168(sp)",
        "fsd fs9, 176(sp)",
        "fsd fs10, 184(sp)",
        "fsd fs11, 192(sp)",
        "sd a0, 200(sp)",
        "addi s0, a0, 1",
        "addi s1, a0, 2",
        "addi s2, a0, 3",
        "addi s3, a0, 4",
        "addi s4, a0, 5",
        "addi s5, a0, 6",
        "addi s6, a0, 7",
        "addi s7, a0, 8",
        "addi s8, a0, 9",
        "addi s9, a0, 10",
        "addi s10, a0, 11",
        "addi s11, a0, 12",
        "addi t0, a0, 20",
        "fmv.d.x fs0, t0",
        "addi t0, a0, 21",
        "fmv.d.x fs1, t0",
        "addi t0, a0, 22",
        "fmv.d.x fs2, t0",
        "addi t0, a0, 23",
        "fmv.d.x fs3, t0",
        "addi t0, a0, 24",
        "fmv.d.x fs4, t0",
        "addi t0, a0, 25",
        "fmv.d.x fs5, t0",
        "addi t0, a0, 26",
        "fmv.d.x fs6, t0",
        "addi t0, a0, 27",
        "fmv.d.x fs7, t0",
        "addi t0, a0, 28",
        "fmv.d.x fs8, t0",
        "addi t0, a0, 29",
        "fmv.d.x fs9, t0",
        "addi t0, a0, 30",
        "fmv.d.x fs10, t0",
        "addi t0, a0, 31",
        "fmv.d.x fs11, t0",
        "mv t1, a1",
        "mv a0, a2",
        "jalr t1",
        "ld t0, 200(sp)",
        "li a0, 0",
        "addi t1, s0, -1",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s1, -2",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s2, -3",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s3, -4",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s4, -5",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s5, -6",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s6, -7",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s7, -8",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s8, -9",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s9, -10",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s10, -11",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "addi t1, s11, -12",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs0",
        "addi t1, t1, -20",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs1",
        "addi t1, t1, -21",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs2",
        "addi t1, t1, -22",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs3",
        "addi t1, t1, -23",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs4",
        "addi t1, t1, -24",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs5",
        "addi t1, t1, -25",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs6",
        "addi t1, t1, -26",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs7",
        "addi t1, t1, -27",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs8",
        "addi t1, t1, -28",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs9",
        "addi t1, t1, -29",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs10",
        "addi t1, t1, -30",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "fmv.x.d t1, fs11",
        "addi t1, t1, -31",
        "xor t1, t1, t0",
        "or a0, a0, t1",
        "ld s0, 8(sp)",
        "ld s1, 16(sp)",
        "ld s2, 24(sp)",
        "ld s3, 32(sp)",
        "ld s4, 40(sp)",
        "ld s5, 48(sp)",
        "ld s6, 56(sp)",
        "ld s7, 64(sp)",
        "ld s8, 72(sp)",
        "ld s9, 80(sp)",
        "ld s10, 88(sp)",
        "ld s11, 96(sp)",
        "fld fs0, 104(sp)",
        "fld fs1, 112(sp)",
        "fld fs2, 120(sp)",
        "fld fs3, 128(sp)",
        "fld fs4, 136(sp)",
        "fld fs5, 144(sp)",
        "fld fs6, 152(sp)",
        "fld fs7, 160(sp)",
        "fld fs8, 168(sp)",
        "fld fs9, 176(sp)",
        "fld fs10, 184(sp)",
        "fld fs11, 192(sp)",
        "ld ra, 0(sp)",
        "addi sp, sp, 224",
        "ret",
    )
}
