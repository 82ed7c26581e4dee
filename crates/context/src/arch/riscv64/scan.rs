//! The word scan of riscv64, and the prefetch.

use std::arch::asm;

/// Announces a write to the cache line at `address`, so that a later read and write of it cost one
/// transfer between processors, not two. A hint, valid for any address.
#[inline(always)]
pub fn prefetch_write(address: *const u8) {
    // SAFETY: a prefetch neither faults nor changes memory. Processors without Zicbop take
    // `prefetch.w` for this `ori`, which has no effect.
    unsafe {
        asm!(
            "ori zero, {}, 3",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Number of bytes that [`first_hit`] examines in one step.
pub(crate) const BLOCK: usize = 128;

/// All implementations of [`first_hit`] that this processor can run.
#[cfg(test)]
pub(crate) fn kernels() -> Vec<unsafe fn(*const u8, *const u8, usize) -> usize> {
    vec![first_hit]
}

/// The index of the first of `count` blocks in which `words & masks` has a bit; `count` if there is
/// none.
///
/// # Safety
///
/// Both arrays are readable for `count` blocks (other threads may write them meanwhile), and
/// `words` is a multiple of 32.
#[inline]
pub(crate) unsafe fn first_hit(words: *const u8, masks: *const u8, count: usize) -> usize {
    let mut left = count;
    // SAFETY: the loop advances by a block per iteration, at most `count` times, and only reads.
    // Linux lets loads be unaligned. Scalar: the vectors of riscv64 are optional.
    unsafe {
        asm!(
            "2:",
            "beqz {left}, 4f",
            "addi {end}, {words}, 128",
            "li {found}, 0",
            "3:",
            "ld {a}, 0({words})",
            "ld {b}, 0({masks})",
            "ld {c}, 8({words})",
            "ld {d}, 8({masks})",
            "and {a}, {a}, {b}",
            "and {c}, {c}, {d}",
            "or {found}, {found}, {a}",
            "or {found}, {found}, {c}",
            "addi {words}, {words}, 16",
            "addi {masks}, {masks}, 16",
            "bne {words}, {end}, 3b",
            "bnez {found}, 4f",
            "addi {left}, {left}, -1",
            "j 2b",
            "4:",
            words = inout(reg) words => _,
            masks = inout(reg) masks => _,
            left = inout(reg) left,
            end = out(reg) _,
            found = out(reg) _,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            d = out(reg) _,
            options(nostack, readonly),
        );
    }
    count - left
}
