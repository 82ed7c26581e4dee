//! The bed of a worker: where its thread sleeps, and the token by which another thread ends that.
//!
//! README.md beside this file has the steps and the proof.

use crate::atomic::{AtomicU32, Ordering, const_fn, unless_weakened};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The bed of one worker, and its token.
///
/// A worker sleeps on its token, or in a system call of one of its sources, which has a number.
#[derive(Debug)]
pub struct WorkerBed {
    /// 1 from the end of a wake until the owner rises; 0 otherwise. The futex word of a worker that
    /// sleeps on its token. Set by the thread that has taken the owner's mark, cleared by the
    /// owner.
    token: AtomicU32,
    /// Number of the source + 1, or 0: the token. Written by the owner before its mark, read by the
    /// owner and by the thread that has taken the mark.
    source: AtomicU32,
}

impl WorkerBed {
    /// The value of [`word`](Self::word) until the token comes.
    pub const NO_TOKEN: u32 = 0;
    const TOKEN: u32 = 1;

    const_fn! {
        /// Creates the bed of a worker that is up.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            WorkerBed { token: AtomicU32::new(Self::NO_TOKEN), source: AtomicU32::new(0) }
        }
    }

    /// Lies down in the bed of source number `source`, or on the token, and returns the result of
    /// `mark`, which marks the owner parked. Only the owner, which [rises](Self::rise) later, slept
    /// or not.
    #[inline]
    pub fn lie_down<R>(&self, source: Option<u32>, mark: impl FnOnce() -> R) -> R {
        if cfg!(weaken = "bed-choice") {
            let marked = mark();
            self.choose(source);
            return marked;
        }
        self.choose(source);
        mark()
    }

    fn choose(&self, source: Option<u32>) {
        // Relaxed: published by the mark. Its Release pairs with the Acquire of the thread that
        // takes it.
        self.source.store(source.map_or(0, |number| number + 1), Ordering::Relaxed);
    }

    /// Returns the source that has the owner in bed; `None` if it lies on its token, or is up.
    /// Only for the owner.
    #[inline]
    pub fn source(&self) -> Option<u32> {
        self.source.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Ends the sleep: calls `ring` with the source that the owner sleeps in, if there is one, then
    /// gives the token. Returns the result of `ring`. Only for the thread that has taken the
    /// owner's mark.
    ///
    /// From the token on the owner may be gone, with its bed and its sources. A thread that owes it
    /// a futex wake makes that afterwards, by an address that it has read before.
    #[inline]
    pub fn wake<R>(&self, ring: impl FnOnce(Option<u32>) -> R) -> R {
        if cfg!(weaken = "bed-ring") {
            self.give_token();
            return ring(self.source());
        }
        let rung = ring(self.source());
        self.give_token();
        rung
    }

    #[inline]
    fn give_token(&self) {
        // Release: pairs with the Acquire in `has_token`.
        self.token.store(Self::TOKEN, unless_weakened!("bed-token", Ordering::Release));
    }

    /// Returns true if the token has come: the thread that has taken the mark touches the owner no
    /// more. Only for the owner.
    #[inline]
    pub fn has_token(&self) -> bool {
        // Acquire: pairs with the Release in `give_token`.
        let order = unless_weakened!("bed-awaits", Ordering::Acquire);
        self.token.load(order) == Self::TOKEN
    }

    /// Returns true if the token has come and the owner has not risen since. A hint.
    #[inline]
    pub fn is_woken(&self) -> bool {
        self.token.load(Ordering::Relaxed) == Self::TOKEN
    }

    /// Returns the word to sleep on while it holds [`NO_TOKEN`](Self::NO_TOKEN), and to wake.
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.token
    }

    /// Ends the time in bed. Only for the owner, once it has taken its mark back, or has the token.
    #[inline]
    pub fn rise(&self) {
        // Relaxed: no other thread touches the bed before the next mark, which publishes it.
        if !cfg!(weaken = "bed-rise") {
            self.token.store(Self::NO_TOKEN, Ordering::Relaxed);
        }
        self.source.store(0, Ordering::Relaxed);
    }

    /// Takes a token for given that a thread may have owed which has died. The next sleep ends
    /// early if none was owed. Only for the owner, while it is up.
    pub fn presume_token(&self) {
        // Relaxed: for this thread.
        self.token.store(Self::TOKEN, Ordering::Relaxed);
    }
}
