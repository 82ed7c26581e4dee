//! Search for hits in a notification area: adjacent words that other threads write during the
//! search.
//!
//! # Guarantees of a vector load
//!
//! Intel (SDM volume 3, "Guaranteed Atomic Operations") and AMD (APM volume 2, "Access Atomicity")
//! guarantee that a processor with AVX makes an aligned load of 16 bytes one access. No manual says
//! so for wider loads, or without AVX; processors make accesses of at least 8 aligned bytes. Those
//! of aarch64 and riscv64 promise no more than that. The search does not depend on it. A vector
//! only selects a block, and the words of the block are then read again one by one, atomically. A
//! torn word that looked like a hit is not reported. A torn word that looked like no hit is seen in
//! the next pass if its condition still holds then. A polled level promises no more than that.
//!
//! All reads are relaxed. The user of a hit reads the word once more with Acquire, which pairs with
//! the Release store of the word's writer.

use crate::arch;
use crate::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The first index `i` in `from..to` with `words[i] & masks[i] != 0`.
///
/// # Safety
///
/// `words` and `masks` are aligned arrays of at least `to` elements, which other threads may write
/// meanwhile, atomically.
pub unsafe fn find_hit_u64(
    words: *const u64,
    masks: *const u64,
    from: usize,
    to: usize,
) -> Option<usize> {
    // SAFETY: the caller's promise; an atomic is laid out as its integer.
    unsafe { find_hit(words.cast::<AtomicU64>(), masks.cast::<AtomicU64>(), from, to) }
}

/// [`find_hit_u64`] for words of 32 bits.
///
/// # Safety
///
/// The conditions of [`find_hit_u64`].
pub unsafe fn find_hit_u32(
    words: *const u32,
    masks: *const u32,
    from: usize,
    to: usize,
) -> Option<usize> {
    // SAFETY: the caller's promise; an atomic is laid out as its integer.
    unsafe { find_hit(words.cast::<AtomicU32>(), masks.cast::<AtomicU32>(), from, to) }
}

trait ScanWord {
    fn meets(&self, mask: &Self) -> bool;
}

impl ScanWord for AtomicU64 {
    #[inline(always)]
    fn meets(&self, mask: &Self) -> bool {
        self.load(Relaxed) & mask.load(Relaxed) != 0
    }
}

impl ScanWord for AtomicU32 {
    #[inline(always)]
    fn meets(&self, mask: &Self) -> bool {
        self.load(Relaxed) & mask.load(Relaxed) != 0
    }
}

/// Examines the words up to the first aligned word, then blocks, then the words of the incomplete
/// last block.
///
/// # Safety
///
/// `words` and `masks` are arrays of at least `to` elements.
#[inline(always)]
unsafe fn find_hit<W: ScanWord>(
    words: *const W,
    masks: *const W,
    from: usize,
    to: usize,
) -> Option<usize> {
    if from >= to {
        return None;
    }
    let per_block = arch::BLOCK / size_of::<W>();
    // SAFETY: `from` is an index of the array.
    let unaligned = unsafe { words.add(from).align_offset(32) };
    let mut at = unaligned.saturating_add(from).min(to);
    // SAFETY: all indices below are less than `to`.
    unsafe {
        if let Some(hit) = find_one(words, masks, from, at) {
            return Some(hit);
        }
        while to - at >= per_block {
            let blocks = (to - at) / per_block;
            let skipped = arch::first_hit(words.add(at).cast(), masks.add(at).cast(), blocks);
            at += skipped * per_block;
            if skipped == blocks {
                break;
            }
            if let Some(hit) = find_one(words, masks, at, at + per_block) {
                return Some(hit);
            }
            // The word has changed back since the block was selected: a past level is not reported.
            at += per_block;
        }
        find_one(words, masks, at, to)
    }
}

/// # Safety
///
/// The conditions of [`find_hit`].
#[inline(always)]
unsafe fn find_one<W: ScanWord>(
    words: *const W,
    masks: *const W,
    from: usize,
    to: usize,
) -> Option<usize> {
    // SAFETY: the caller's arrays have `to` elements.
    (from..to).find(|&i| unsafe { (*words.add(i)).meets(&*masks.add(i)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;

    /// Mostly quiet words, so that hits are rare and at any place.
    fn quiet<T: Arbitrary + Default + Clone + 'static>() -> impl Strategy<Value = Vec<(T, T)>> {
        let rare = prop_oneof![20 => Just(T::default()), 1 => any::<T>()];
        prop::collection::vec((rare, any::<T>()), 0..400)
    }

    macro_rules! against_an_oracle {
        ($name:ident, $word:ty, $find:ident) => {
            proptest! {
                #[test]
                fn $name(
                    pairs in quiet::<$word>(),
                    (word_shift, mask_shift) in (0..16usize, 0..16usize),
                    (from, to) in (0..500usize, 0..500usize),
                ) {
                    let place = |shift: usize, part: fn(&($word, $word)) -> $word| {
                        let mut all = vec![<$word>::MAX; shift];
                        all.extend(pairs.iter().map(part));
                        all.push(<$word>::MAX);
                        all
                    };
                    let words = place(word_shift, |pair| pair.0);
                    let masks = place(mask_shift, |pair| pair.1);
                    let to = to.min(pairs.len());
                    let expected = (from..to).find(|&i| pairs[i].0 & pairs[i].1 != 0);
                    // SAFETY: both slices have at least `to` elements.
                    let found = unsafe {
                        $find(words[word_shift..].as_ptr(), masks[mask_shift..].as_ptr(), from, to)
                    };
                    prop_assert_eq!(found, expected);
                }
            }
        };
    }

    against_an_oracle!(u64_hits_are_those_of_the_oracle, u64, find_hit_u64);
    against_an_oracle!(u32_hits_are_those_of_the_oracle, u32, find_hit_u32);

    #[repr(align(32))]
    struct Blocks([u8; 5 * arch::BLOCK]);

    /// Tests all kernels of the processor, with a bit in every byte.
    #[test]
    fn every_bit_of_every_block_is_seen() {
        let mut words = Box::new(Blocks([0; 5 * arch::BLOCK]));
        let masks = [0xFF; 5 * arch::BLOCK + 1];
        let kernels = arch::kernels();
        for byte in 0..words.0.len() {
            words.0[byte] = 1 << (byte % 8);
            for skew in [0, 1] {
                let (words, masks) = (words.0.as_ptr(), masks[skew..].as_ptr());
                let expected = byte / arch::BLOCK;
                for kernel in &kernels {
                    // SAFETY: five blocks can be read, and the words are aligned.
                    unsafe {
                        assert_eq!(kernel(words, masks, 5), expected);
                        assert_eq!(kernel(words, masks, expected), expected);
                    }
                }
            }
            words.0[byte] = 0;
        }
    }

    #[test]
    fn a_word_that_is_written_meanwhile_is_found() {
        let words: Vec<AtomicU64> = (0..1000).map(|_| AtomicU64::new(0)).collect();
        let masks = vec![u64::MAX; words.len()];
        // SAFETY: the arrays have the given length, and the words are atomics.
        let scan =
            || unsafe { find_hit_u64(words.as_ptr().cast(), masks.as_ptr(), 0, words.len()) };
        thread::scope(|s| {
            s.spawn(|| {
                for i in (0..words.len()).rev().step_by(7) {
                    words[i].store(1 << (i % 64), Relaxed);
                    while words[i].load(Relaxed) != 0 {
                        thread::yield_now();
                    }
                }
            });
            for i in (0..words.len()).rev().step_by(7) {
                let hit = std::iter::from_fn(|| Some(scan())).flatten().next();
                assert_eq!(hit, Some(i));
                words[i].store(0, Relaxed);
            }
        });
        assert_eq!(scan(), None);
    }
}
