//! The memory of messages.

use crate::atomic::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// Room for messages of equal size, as this process knows it. The words are read and written one by
/// one, so that a peer that writes at the same time spoils a message, and nothing else.
///
/// ```
/// use daiko_core::robust::Slots;
/// use std::sync::atomic::AtomicU64;
///
/// let words = [const { AtomicU64::new(0) }; 24];
/// let slots = Slots::new(&words, 3);
/// assert_eq!((slots.count(), slots.size()), (8, 24));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slots<'s> {
    words: &'s [AtomicU64],
    /// Number of words of a slot.
    each: usize,
    /// Number of slots minus one.
    mask: u64,
}

impl<'s> Slots<'s> {
    /// Divides `words` into slots of `each` words.
    ///
    /// # Panics
    ///
    /// If the number of slots is no power of two.
    pub fn new(words: &'s [AtomicU64], each: usize) -> Self {
        let count = words.len().checked_div(each).unwrap_or(0);
        let whole = count.is_power_of_two() && count * each == words.len();
        assert!(whole, "{} words are no power of two of slots of {each}", words.len());
        Self { words, each, mask: count as u64 - 1 }
    }

    /// Returns the number of slots.
    pub const fn count(&self) -> u64 {
        self.mask + 1
    }

    /// Returns the size of each slot, in bytes.
    pub const fn size(&self) -> usize {
        self.each * WORD
    }

    /// Returns the slot of the message number `at`; never one outside.
    fn slot(&self, at: u64) -> &'s [AtomicU64] {
        let first = (at & self.mask) as usize * self.each;
        &self.words[first..first + self.each]
    }

    /// Writes the beginning of a slot.
    #[inline]
    pub(super) fn write(&self, at: u64, message: &[u8]) {
        assert!(message.len() <= self.size(), "a message longer than a slot");
        let (words, rest) = message.as_chunks::<WORD>();
        let (whole, last) = self.slot(at).split_at(words.len());
        // Relaxed, here and in `read`: the ends of the lane publish messages and give slots back.
        for (to, &word) in whole.iter().zip(words) {
            to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut word = [0; WORD];
            word[..rest.len()].copy_from_slice(rest);
            last[0].store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Copies the beginning of a slot.
    #[inline]
    pub(super) fn read(&self, at: u64, into: &mut [u8]) {
        assert!(into.len() <= self.size(), "a message longer than a slot");
        let (words, rest) = into.as_chunks_mut::<WORD>();
        let (whole, last) = self.slot(at).split_at(words.len());
        for (word, from) in words.iter_mut().zip(whole) {
            *word = from.load(Ordering::Relaxed).to_ne_bytes();
        }
        if !rest.is_empty() {
            let word = last[0].load(Ordering::Relaxed).to_ne_bytes();
            rest.copy_from_slice(&word[..rest.len()]);
        }
    }
}
