//! Where messages lie.

use crate::sync::{AtomicU64, Ordering};

/// The size of a word in bytes.
const WORD: usize = size_of::<u64>();

/// Room for messages of equal size, as this process knows it. In words that are read and written one by one, so that a
/// peer who writes at the same time spoils a message, and nothing else.
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
    /// Words of a slot.
    each: usize,
    /// One less than there are slots.
    mask: u64,
}

impl<'s> Slots<'s> {
    /// `words` as slots of `each` words.
    ///
    /// # Panics
    ///
    /// If that is no power of two of slots.
    pub fn new(words: &'s [AtomicU64], each: usize) -> Self {
        let count = words.len().checked_div(each).unwrap_or(0);
        let whole = count.is_power_of_two() && count * each == words.len();
        assert!(whole, "{} words are no power of two of slots of {each}", words.len());
        Self { words, each, mask: count as u64 - 1 }
    }

    /// How many there are.
    pub const fn count(&self) -> u64 {
        self.mask + 1
    }

    /// The size of each, in bytes.
    pub const fn size(&self) -> usize {
        self.each * WORD
    }

    /// The slot of the message number `at`; never one outside.
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
        // Relaxed, here and below: messages are published and given back by the ends of the lane.
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
