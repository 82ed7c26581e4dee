//! Slots for clients' messages in shared memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::client::answer;
use crate::kit::Zeroed;

/// Words of the longest message.
const MOST_WORDS: usize = 8;

/// The message of one client and the state that says which side has the turn. If the message has 8
/// bytes, both are in one cache line. The answer replaces the question, so that no other line
/// travels. Slots are two lines apart, as the adjacent-line prefetcher fetches pairs.
#[repr(C, align(128))]
pub(super) struct MessageSlot {
    /// Defined by the method: [`ANSWERED`] gives the message to the client, all other values give
    /// it to the server.
    pub(super) state: AtomicU32,
    /// Accesses are relaxed: only the side that has the turn accesses the message.
    message: [AtomicU64; MOST_WORDS],
}

// SAFETY: all fields are atomics without pointers, for which zero is a valid value.
unsafe impl Zeroed for MessageSlot {}

/// The client may ask.
pub(super) const ANSWERED: u32 = 0;
/// The server may answer.
pub(super) const ASKED: u32 = 1;

impl MessageSlot {
    /// Gives the server a question. Called by the client.
    #[inline]
    pub(super) fn ask<const WORDS: usize>(&self, question: &[u64; WORDS]) {
        self.write(question);
        // Pairs with the Acquire in `answer`.
        self.state.store(ASKED, Ordering::Release);
    }

    /// Answers the question, if there is one. Called by the server. Returns whether there was a
    /// question.
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

    /// Returns the answer once it is there. Called by the client after a question.
    #[inline]
    pub(super) fn answered<const WORDS: usize>(&self) -> Option<[u64; WORDS]> {
        // Pairs with the Release in `answer`.
        (self.state.load(Ordering::Acquire) == ANSWERED).then(|| self.read())
    }

    /// Writes the message. Called by the side that has the turn.
    #[inline]
    pub(super) fn write<const WORDS: usize>(&self, message: &[u64; WORDS]) {
        const { assert!(WORDS <= MOST_WORDS, "the slot is too small") };
        for (word, value) in self.message.iter().zip(message) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Reads the message. Called by the side that has the turn.
    #[inline]
    pub(super) fn read<const WORDS: usize>(&self) -> [u64; WORDS] {
        std::array::from_fn(|word| self.message[word].load(Ordering::Relaxed))
    }
}
