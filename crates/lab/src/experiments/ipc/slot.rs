//! Slots for clients' messages in shared memory.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::client::answer;
use crate::kit::Zeroed;

/// Words of the longest message.
pub(super) const MOST_WORDS: usize = 8192;

/// The message of one client and the state that says which side has the turn. If the message has 8
/// bytes, both are in one cache line. The answer replaces the question, so that no other line
/// travels. Slots are two lines apart, as the adjacent-line prefetcher fetches pairs. A slot has
/// room for the longest message; the pages behind a shorter one are never touched.
///
/// The message is plain memory, copied as fast as the processor can. Only the side that has the
/// turn accesses it, and the state passes the turn on by a Release store that the other side loads
/// by Acquire.
#[repr(C, align(128))]
pub(super) struct MessageSlot {
    /// Defined by the method. With [`ask`](Self::ask) and its counterparts, [`ANSWERED`] gives the
    /// message to the client, all other values give it to the server.
    pub(super) state: AtomicU32,
    message: UnsafeCell<[u64; MOST_WORDS]>,
}

// SAFETY: zero is a valid value of all fields, which hold no address. For concurrent use see Sync.
unsafe impl Zeroed for MessageSlot {}
// SAFETY: the state is atomic. Every method of this experiment accesses the message only while it
// has the turn, as described above.
unsafe impl Sync for MessageSlot {}

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
            self.answer_in_place::<WORDS>();
            // Pairs with the Acquire in `take_answer`.
            self.state.store(ANSWERED, Ordering::Release);
        }
        asked
    }

    /// Copies the answer to `message` if it is there. Returns whether it is. Called by the client
    /// after a question.
    #[inline]
    pub(super) fn take_answer<const WORDS: usize>(&self, message: &mut [u64; WORDS]) -> bool {
        // Pairs with the Release in `answer`.
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        if answered {
            self.read(message);
        }
        answered
    }

    /// Writes the message. Called by the side that has the turn.
    #[inline]
    pub(super) fn write<const WORDS: usize>(&self, message: &[u64; WORDS]) {
        // SAFETY: only the side that has the turn accesses the words.
        unsafe { *self.words() = *message };
    }

    /// Reads the message. Called by the side that has the turn.
    #[inline]
    pub(super) fn read<const WORDS: usize>(&self, message: &mut [u64; WORDS]) {
        // SAFETY: as in `write`.
        unsafe { *message = *self.words() };
    }

    /// Replaces the question by its answer. Called by the side that has the turn.
    #[inline]
    pub(super) fn answer_in_place<const WORDS: usize>(&self) {
        // SAFETY: as in `write`.
        answer::<WORDS>(unsafe { &mut *self.words() });
    }

    /// Writes the answer to the question in `other`. Called by the side that has the turn in both
    /// slots.
    #[inline]
    pub(super) fn answer_from<const WORDS: usize>(&self, other: &MessageSlot) {
        // SAFETY: as in `write`. The slots differ.
        let (to, from) = unsafe { (&mut *self.words::<WORDS>(), &*other.words::<WORDS>()) };
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.wrapping_add(1);
        }
    }

    #[inline]
    fn words<const WORDS: usize>(&self) -> *mut [u64; WORDS] {
        const { assert!(WORDS <= MOST_WORDS, "the slot is too small") };
        self.message.get().cast()
    }
}
