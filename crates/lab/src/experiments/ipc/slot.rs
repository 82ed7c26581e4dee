//! Where a client's message lies in shared memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::client::answer;
use crate::kit::Zeroed;

/// The longest message, in words.
const MOST_WORDS: usize = 8;

/// The message of one client, and whose turn it is: in one line, if the message has 8 bytes. The
/// answer replaces the question, so that no other line travels. Apart from others' by two lines: the
/// prefetcher of adjacent lines fetches pairs.
#[repr(C, align(128))]
pub(super) struct Slot {
    /// What the method makes of it; [`ANSWERED`] gives the message to the client, all else to the
    /// server.
    pub(super) state: AtomicU32,
    /// Relaxed accesses: whoever has the turn has it alone.
    message: [AtomicU64; MOST_WORDS],
}

// SAFETY: atomics without pointers, for which zero is a value.
unsafe impl Zeroed for Slot {}

/// The client may ask.
pub(super) const ANSWERED: u32 = 0;
/// The server may answer.
pub(super) const ASKED: u32 = 1;

impl Slot {
    /// By the client: gives the server a question.
    #[inline]
    pub(super) fn ask<const WORDS: usize>(&self, question: &[u64; WORDS]) {
        self.write(question);
        // Pairs with the Acquire in `answer`.
        self.state.store(ASKED, Ordering::Release);
    }

    /// By the server: answers, if there is a question; whether there was.
    #[inline]
    pub(super) fn answer<const WORDS: usize>(&self) -> bool {
        // Pairs with the Release in `ask`.
        let asked = self.state.load(Ordering::Acquire) == ASKED;
        if asked {
            self.write::<WORDS>(&answer(self.read()));
            // Pairs with the Acquire in `answered`.
            self.state.store(ANSWERED, Ordering::Release);
        }
        asked
    }

    /// By the client, after a question: the answer, once it is there.
    #[inline]
    pub(super) fn answered<const WORDS: usize>(&self) -> Option<[u64; WORDS]> {
        // Pairs with the Release in `answer`.
        (self.state.load(Ordering::Acquire) == ANSWERED).then(|| self.read())
    }

    /// By whose turn it is.
    #[inline]
    pub(super) fn write<const WORDS: usize>(&self, message: &[u64; WORDS]) {
        const { assert!(WORDS <= MOST_WORDS, "the slot is too small") };
        for (word, value) in self.message.iter().zip(message) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// By whose turn it is.
    #[inline]
    pub(super) fn read<const WORDS: usize>(&self) -> [u64; WORDS] {
        std::array::from_fn(|word| self.message[word].load(Ordering::Relaxed))
    }
}
