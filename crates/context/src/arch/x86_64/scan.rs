//! The word scan of x86-64, and the prefetch.

use std::arch::asm;

/// Announces a write to the cache line at `address`, so that a later read and write of it cost one
/// transfer between processors, not two. A hint, valid for any address.
#[inline(always)]
pub fn prefetch_write(address: *const u8) {
    // SAFETY: a prefetch neither faults nor changes memory. The intrinsic with this hint is a
    // prefetch for reading unless the compiler may use `prefetchw`; processors without `prefetchw`
    // execute it as a no-op.
    unsafe {
        asm!(
            "prefetchw byte ptr [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Number of bytes that [`first_hit_sse2`] and [`first_hit_avx2`] examine in one step.
pub(crate) const BLOCK: usize = 128;

/// The index of the first of `count` blocks in which `words & masks` has a bit; `count` if there is
/// none.
///
/// # Safety
///
/// Both arrays are readable for `count` blocks (other threads may write them meanwhile), and
/// `words` is a multiple of 32.
#[inline(always)]
pub(crate) unsafe fn first_hit(words: *const u8, masks: *const u8, count: usize) -> usize {
    // SAFETY: the caller's promise; AVX2 is used only if it was detected. The standard library
    // caches the detection: one load and a branch.
    unsafe {
        if is_x86_feature_detected!("avx2") {
            first_hit_avx2(words, masks, count)
        } else {
            first_hit_sse2(words, masks, count)
        }
    }
}

/// All implementations of [`first_hit`] that this processor can run.
#[cfg(test)]
pub(crate) fn kernels() -> Vec<unsafe fn(*const u8, *const u8, usize) -> usize> {
    let mut kernels: Vec<unsafe fn(_, _, _) -> _> = vec![first_hit_sse2];
    match is_x86_feature_detected!("avx2") {
        true => kernels.push(first_hit_avx2),
        false => println!("skipped: this processor has no AVX2"),
    }
    kernels
}

/// The index of the first of `count` blocks in which `words & masks` has a bit; `count` if there is
/// none.
///
/// # Safety
///
/// Both arrays are readable for `count` blocks (other threads may write them meanwhile), and
/// `words` is a multiple of 16.
#[inline]
unsafe fn first_hit_sse2(words: *const u8, masks: *const u8, count: usize) -> usize {
    let mut left = count;
    // SAFETY: the loop advances by a block per iteration, at most `count` times, and only reads.
    // Every x86-64 has SSE2.
    unsafe {
        asm!(
            "pxor xmm8, xmm8",
            "test {left}, {left}",
            "jz 3f",
            "2:",
            // Masks may be unaligned, so they use the unaligned loads; words are the memory
            // operands, which SSE requires to be aligned.
            "movdqu xmm0, [{masks}]",
            "movdqu xmm1, [{masks} + 16]",
            "movdqu xmm2, [{masks} + 32]",
            "movdqu xmm3, [{masks} + 48]",
            "movdqu xmm4, [{masks} + 64]",
            "movdqu xmm5, [{masks} + 80]",
            "movdqu xmm6, [{masks} + 96]",
            "movdqu xmm7, [{masks} + 112]",
            "pand xmm0, [{words}]",
            "pand xmm1, [{words} + 16]",
            "pand xmm2, [{words} + 32]",
            "pand xmm3, [{words} + 48]",
            "pand xmm4, [{words} + 64]",
            "pand xmm5, [{words} + 80]",
            "pand xmm6, [{words} + 96]",
            "pand xmm7, [{words} + 112]",
            // A tree, so that the eight registers do not wait for each other.
            "por xmm0, xmm1",
            "por xmm2, xmm3",
            "por xmm4, xmm5",
            "por xmm6, xmm7",
            "por xmm0, xmm2",
            "por xmm4, xmm6",
            "por xmm0, xmm4",
            // SSE2 has no test for zero: compare the bytes and gather the results.
            "pcmpeqb xmm0, xmm8",
            "pmovmskb {found:e}, xmm0",
            "cmp {found:e}, 0xffff",
            "jne 3f",
            "add {words}, 128",
            "add {masks}, 128",
            "dec {left}",
            "jnz 2b",
            "3:",
            words = inout(reg) words => _,
            masks = inout(reg) masks => _,
            left = inout(reg) left,
            found = out(reg) _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,
            options(nostack, readonly),
        );
    }
    count - left
}

/// [`first_hit_sse2`] with registers of twice the width.
///
/// # Safety
///
/// Both arrays are readable for `count` blocks (other threads may write them meanwhile), `words` is
/// a multiple of 32, and the processor has AVX2.
#[inline]
unsafe fn first_hit_avx2(words: *const u8, masks: *const u8, count: usize) -> usize {
    let mut left = count;
    // SAFETY: the loop advances by a block per iteration, at most `count` times, and only reads;
    // the caller has checked for AVX2.
    unsafe {
        asm!(
            "test {left}, {left}",
            "jz 3f",
            "2:",
            "vmovdqa ymm0, [{words}]",
            "vmovdqa ymm1, [{words} + 32]",
            "vmovdqa ymm2, [{words} + 64]",
            "vmovdqa ymm3, [{words} + 96]",
            "vpand ymm0, ymm0, [{masks}]",
            "vpand ymm1, ymm1, [{masks} + 32]",
            "vpand ymm2, ymm2, [{masks} + 64]",
            "vpand ymm3, ymm3, [{masks} + 96]",
            "vpor ymm0, ymm0, ymm1",
            "vpor ymm2, ymm2, ymm3",
            "vpor ymm0, ymm0, ymm2",
            "vptest ymm0, ymm0",
            "jnz 3f",
            "add {words}, 128",
            "add {masks}, 128",
            "dec {left}",
            "jnz 2b",
            "3:",
            // Upper halves in use would slow down SSE code, as each of its instructions would have
            // to merge them.
            "vzeroupper",
            words = inout(reg) words => _,
            masks = inout(reg) masks => _,
            left = inout(reg) left,
            // All sixteen, as `vzeroupper` clears their upper halves.
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _,
            options(nostack, readonly),
        );
    }
    count - left
}
