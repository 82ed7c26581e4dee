//! The signal by which a worker's kernel thread is told to look at its context.

use crate::atomic::{AtomicU32, Ordering};

/// The poke that is on its way to the kernel thread of a worker, or handled there; at most one.
///
/// ```text
/// 0: none, else the id of the kernel thread that the signal was sent to
/// ```
///
/// It names the thread, not the worker, as a worker may be the guest of another one: then it runs
/// on another thread when the signal arrives, and two workers have one thread.
#[derive(Debug)]
pub struct PokeWord(AtomicU32);

impl PokeWord {
    /// The word of a worker that is not poked.
    #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
    pub fn new() -> Self {
        PokeWord(AtomicU32::new(0))
    }

    /// Calls `send`, which sends the signal to `thread`, unless one is on its way. `send` returns
    /// false if it could not. One caller at a time, which repeats this until the context has come.
    pub fn poke(&self, thread: u32, send: impl FnOnce() -> bool) {
        // Relaxed, all of them: the word hands nothing over, and the kernel orders the handler
        // behind the sender.
        if self.0.load(Ordering::Relaxed) != 0 && !cfg!(weaken = "loan-poke-once") {
            return;
        }
        self.0.store(thread, Ordering::Relaxed);
        if !send() && !cfg!(weaken = "loan-poke-failed") {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// Ends the pokes of `thread`, the caller's, whose handler has looked at its context. `words`
    /// are those of all workers that it may have been, or be now.
    pub fn end<'w>(words: impl IntoIterator<Item = &'w PokeWord>, thread: u32) {
        for PokeWord(word) in words {
            // Only this thread ends a poke that was sent to it.
            if word.load(Ordering::Relaxed) == thread {
                word.store(0, Ordering::Relaxed);
            }
            if cfg!(weaken = "loan-poke-end") {
                return;
            }
        }
    }
}
