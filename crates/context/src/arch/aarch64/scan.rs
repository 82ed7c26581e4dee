//! The word scan of aarch64, and the prefetch.

use std::arch::asm;

/// Announces a write to the cache line at `address`, so that a later read and write of it cost one
/// transfer between processors, not two. A hint, valid for any address.
#[inline(always)]
pub fn prefetch_write(address: *const u8) {
    // SAFETY: a prefetch neither faults nor changes memory.
    unsafe {
        asm!(
            "prfm pstl1keep, [{}]",
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
    // Every aarch64 Linux has NEON, which loads from any address.
    unsafe {
        asm!(
            "cbz {left}, 3f",
            "2:",
            "ldp q0, q1, [{words}]",
            "ldp q2, q3, [{words}, #32]",
            "ldp q4, q5, [{words}, #64]",
            "ldp q6, q7, [{words}, #96]",
            "ldp q16, q17, [{masks}]",
            "ldp q18, q19, [{masks}, #32]",
            "ldp q20, q21, [{masks}, #64]",
            "ldp q22, q23, [{masks}, #96]",
            "and v0.16b, v0.16b, v16.16b",
            "and v1.16b, v1.16b, v17.16b",
            "and v2.16b, v2.16b, v18.16b",
            "and v3.16b, v3.16b, v19.16b",
            "and v4.16b, v4.16b, v20.16b",
            "and v5.16b, v5.16b, v21.16b",
            "and v6.16b, v6.16b, v22.16b",
            "and v7.16b, v7.16b, v23.16b",
            // A tree, so that the eight registers do not wait for each other.
            "orr v0.16b, v0.16b, v1.16b",
            "orr v2.16b, v2.16b, v3.16b",
            "orr v4.16b, v4.16b, v5.16b",
            "orr v6.16b, v6.16b, v7.16b",
            "orr v0.16b, v0.16b, v2.16b",
            "orr v4.16b, v4.16b, v6.16b",
            "orr v0.16b, v0.16b, v4.16b",
            // NEON has no test for zero: the larger words of all pairs are 0 only if all words are.
            "umaxp v0.4s, v0.4s, v0.4s",
            "fmov {found}, d0",
            "cbnz {found}, 3f",
            "add {words}, {words}, #128",
            "add {masks}, {masks}, #128",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            "3:",
            words = inout(reg) words => _,
            masks = inout(reg) masks => _,
            left = inout(reg) left,
            found = out(reg) _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
            out("v6") _, out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _,
            out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            options(nostack, readonly),
        );
    }
    count - left
}
