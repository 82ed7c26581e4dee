//! The caches that `malloc` keeps for each thread.
//!
//! They are freed at the end of a kernel thread only, by a function that the C library does not
//! export. So a block that ends leaves its caches to the next block that is built: a few words in
//! the thread-locals of the library, which are found by a probe.

use std::sync::{Mutex, PoisonError};

use crate::abi::scratch::Scratch;
use crate::abi::{Abi, TlsOffset, Unsupported, at};
use crate::modules;

/// The words of the caches of one block that has ended. The unused ones at the end are 0.
type Words = [usize; MOST_WORDS];

/// More words than any version of the library uses.
const MOST_WORDS: usize = 8;

/// The caches of blocks that have ended.
pub(crate) struct Caches {
    /// The words in a block that lead to its caches.
    words: Vec<TlsOffset>,
    left: Mutex<Vec<Words>>,
}

impl Caches {
    /// Finds the words.
    ///
    /// # Errors
    ///
    /// No thread could be started, or the library has more thread-locals than known.
    pub(crate) fn probe(abi: &Abi) -> Result<Self, Unsupported> {
        const WORD: usize = size_of::<usize>();
        let part = modules::library(abi).ok_or(Unsupported::Layout("the thread-locals"))?;
        let all: Vec<_> = part.step_by(WORD).collect();
        if all.len() > u64::BITS as usize {
            return Err(Unsupported::Layout("the thread-locals"));
        }
        let words = Scratch::with_malloc(all)?.filled();
        if words.len() > MOST_WORDS {
            return Err(Unsupported::Layout("the caches of malloc"));
        }
        Ok(Caches { words, left: Mutex::default() })
    }

    /// Gives the block at `pointer` the caches of a block that has ended, if there are any.
    ///
    /// # Safety
    ///
    /// There is a block that has not run.
    pub(crate) unsafe fn adopt(&self, pointer: usize) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        for (&offset, word) in self.words.iter().zip(left.into_iter().flatten()) {
            // SAFETY: the words lie in the block, which nothing uses.
            unsafe { at::<usize>(pointer, offset).write(word) };
        }
    }

    /// Takes the caches of the block at `pointer`.
    ///
    /// # Safety
    ///
    /// There is a block that nothing runs with any more.
    pub(crate) unsafe fn leave(&self, pointer: usize) {
        // SAFETY: the words lie in the block, which nothing uses.
        let read = |&offset: &TlsOffset| unsafe { at::<usize>(pointer, offset).read() };
        let mut words = Words::default();
        self.words.iter().zip(&mut words).for_each(|(offset, word)| *word = read(offset));
        if words.iter().any(|&word| word != 0) {
            self.left.lock().unwrap_or_else(PoisonError::into_inner).push(words);
        }
    }
}
