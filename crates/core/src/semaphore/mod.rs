//! The permits of a semaphore, and the queue of waiters for some.
//!
//! README.md beside this file has the protocol. Waiting and waking are the caller's job.

use std::ptr::NonNull;

use crate::atomic::{AtomicU32, Ordering, const_fn, unless_weakened};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Node, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Largest number of permits of a semaphore.
pub const MAX_PERMITS: u32 = (1 << 31) - 1;

/// A waiter for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<W> {
    /// The waiter.
    pub waiter: W,
    /// Number of permits that it wants.
    pub permits: u32,
}

/// A semaphore with a queue, 16 bytes.
///
/// Budget without waiters: one RMW to take permits and one to give them back.
pub struct RawSemaphore<W>(WaitQueue<Request<W>>);

/// The error of giving back more permits than a semaphore can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// The word.
///
/// ```text
/// 31       30      0
/// | QUEUED | permits |   QUEUED: somebody is in the queue, so permits go there first
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SemaphoreWord(u32);

impl SemaphoreWord {
    const QUEUED: u32 = 1 << 31;

    const fn permits(self) -> u32 {
        self.0 & !Self::QUEUED
    }

    const fn is_queued(self) -> bool {
        self.0 & Self::QUEUED != 0
    }

    /// Returns the word after `permits` were taken from a semaphore without waiters; `None` if they
    /// may not be.
    fn taken(self, permits: u32) -> Option<SemaphoreWord> {
        if self.is_queued() && !cfg!(weaken = "semaphore-turn") {
            return None;
        }
        let left = self.permits().checked_sub(permits)?;
        Some(SemaphoreWord(left).with_queue(self.is_queued()))
    }

    fn given(self, permits: u32) -> Result<SemaphoreWord, Overflow> {
        match self.permits().checked_add(permits) {
            Some(sum) if sum <= MAX_PERMITS => Ok(SemaphoreWord(self.0 + permits)),
            _ => Err(Overflow),
        }
    }

    const fn with_queue(self, queued: bool) -> SemaphoreWord {
        SemaphoreWord(if queued { self.0 | Self::QUEUED } else { self.permits() })
    }
}

impl<W: Copy> RawSemaphore<W> {
    const_fn! {
        /// Creates a semaphore with `permits`, at most [`MAX_PERMITS`].
        pub const fn new(permits: u32) -> Self {
            assert!(permits <= MAX_PERMITS);
            Self(WaitQueue::new(permits))
        }
    }

    fn word(&self) -> &AtomicU32 {
        self.0.word()
    }

    fn load(&self) -> SemaphoreWord {
        // Relaxed: an exchange decides, or the queue lock is held.
        SemaphoreWord(self.word().load(Ordering::Relaxed))
    }

    /// Exchanges the word. Acquire, to take permits, pairs with Release, to give some back.
    fn change(
        &self,
        from: SemaphoreWord,
        to: SemaphoreWord,
        ordering: Ordering,
    ) -> Result<(), SemaphoreWord> {
        let change = self.word().compare_exchange_weak(from.0, to.0, ordering, Ordering::Relaxed);
        change.map(drop).map_err(SemaphoreWord)
    }

    /// Returns the number of permits available to the next caller.
    pub fn available(&self) -> u32 {
        self.load().permits()
    }

    /// Takes `permits` if they are available and there is no waiter.
    #[inline]
    #[must_use]
    pub fn try_acquire(&self, permits: u32) -> bool {
        let mut word = self.load();
        while let Some(next) = word.taken(permits) {
            match self.change(word, next, Ordering::Acquire) {
                Ok(()) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Takes the permits that `node` asks for and returns true; or puts it into the queue and
    /// returns false: it has them once it is claimed.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`](crate::wait::Locked::enqueue); the queue is left by
    /// [`leave`](Self::leave).
    #[must_use]
    pub unsafe fn acquire(&self, by: &impl Contender, node: NonNull<Node<Request<W>>>) -> bool {
        // SAFETY: alive, by this function's contract.
        let permits = unsafe { node.as_ref() }.waiter().permits;
        let mut queue = self.0.lock(by);
        if !self.announce(permits) {
            return true;
        }
        // SAFETY: passed on to the caller.
        unsafe { queue.enqueue(node) };
        false
    }

    /// Announces a waiter, so that a caller that gives permits back will look; returns false if the
    /// permits could be taken instead. Under the queue lock.
    fn announce(&self, permits: u32) -> bool {
        let mut word = self.load();
        loop {
            let taken =
                if cfg!(weaken = "semaphore-announce") { None } else { word.taken(permits) };
            match self.change(word, taken.unwrap_or(word.with_queue(true)), Ordering::Acquire) {
                Ok(()) => return taken.is_none(),
                Err(seen) => word = seen,
            }
        }
    }

    /// Gives `permits` back and returns true if there is no waiter; otherwise returns false, and
    /// [`release`](Self::release) is due.
    ///
    /// # Errors
    ///
    /// If there would be too many. Nothing has changed then.
    #[inline]
    pub fn release_fast(&self, permits: u32) -> Result<bool, Overflow> {
        let release = unless_weakened!("semaphore-release", Ordering::Release);
        let mut word = self.load();
        while !word.is_queued() {
            match self.change(word, word.given(permits)?, release) {
                Ok(()) => return Ok(true),
                Err(seen) => word = seen,
            }
        }
        Ok(false)
    }

    /// Gives `permits` back; the caller then calls [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// The same as [`release_fast`](Self::release_fast).
    pub fn release(&self, by: &impl Contender, permits: u32) -> Result<(), Overflow> {
        let _queue = self.0.lock(by);
        let mut word = self.load();
        loop {
            match self.change(word, word.given(permits)?, Ordering::Release) {
                Ok(()) => return Ok(()),
                Err(seen) => word = seen,
            }
        }
    }

    /// Gives the first in line its permits, if there are enough. Returns its request: the caller
    /// wakes the waiter exactly once, or gives the permits back if the waiter does not take them.
    /// It then calls this again until there is none.
    #[must_use = "the waiter is to be woken"]
    pub fn serve(&self, by: &impl Contender) -> Option<Request<W>> {
        let mut queue = self.0.lock(by);
        let wanted = queue.first().map(|request| request.permits);
        let served = wanted.and_then(|permits| self.load().permits().checked_sub(permits));
        let first = served.and_then(|_| queue.claim_first(0));
        let next = |word: SemaphoreWord| {
            let left = word.permits() - first.map_or(0, |request| request.permits);
            SemaphoreWord(left).with_queue(!queue.is_empty())
        };
        let mut word = self.load();
        // Acquire and Release: the permits pass from the caller that gave them back to the claimed
        // waiter.
        while let Err(seen) = self.change(word, next(word), Ordering::AcqRel) {
            word = seen;
        }
        first
    }

    /// Takes `node` out of the queue, unless it was claimed before; the caller then calls
    /// [`serve`](Self::serve), as waiters behind may want less.
    ///
    /// [`Unlinked::AlreadyGone`]: its waiter is woken and has the permits.
    ///
    /// # Safety
    ///
    /// `node` is alive, and was given to this semaphore's [`acquire`](Self::acquire) last.
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<Request<W>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.unlink(by, node) }
    }
}
