//! An event: whether something has happened, and who waits for it.
//!
//! README.md beside this file has the protocol. Waiting and waking are the caller's job.

use std::ptr::NonNull;

use crate::list::Unlinked;
use crate::lock::Contender;
use crate::sync::{AtomicU32, Ordering, const_fn, unless_weakened};
use crate::wait::{Node, Taken, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// An event with a queue, 16 bytes.
///
/// Budget: while nobody waits one RMW to set it; to pass one load if it is manual, one RMW if not.
pub struct RawEvent<W>(WaitQueue<W>);

/// The word.
///
/// ```text
/// 31      3   2    1     0
/// | unused | AUTO | state |   state: 0 = UNSET, 1 = SET, 2 = AWAITED: unset, and somebody is queued
/// ```
///
/// `AUTO` never changes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u32);

impl Word {
    const UNSET: u32 = 0;
    const SET: u32 = 1;
    const AWAITED: u32 = 2;
    const STATE: u32 = 3;
    const AUTO: u32 = 4;

    const fn is_auto(self) -> bool {
        self.0 & Self::AUTO != 0
    }

    const fn is_set(self) -> bool {
        self.0 & Self::STATE == Self::SET
    }

    const fn is_awaited(self) -> bool {
        self.0 & Self::STATE == Self::AWAITED
    }

    const fn with(self, state: u32) -> Word {
        Word(self.0 & !Self::STATE | state)
    }

    /// After somebody has passed; `None` if he may not.
    fn passed(self) -> Option<Word> {
        self.is_set().then(|| if self.is_auto() { self.with(Self::UNSET) } else { self })
    }

    /// After it was set without a look into the queue; `None` if one is due.
    fn set(self) -> Option<Word> {
        (!self.is_awaited()).then_some(self.with(Self::SET))
    }
}

impl<W: Copy> RawEvent<W> {
    const_fn! {
        /// An unset event that lets all who wait go, and all who come, until it is reset.
        pub const fn manual() -> Self {
            Self(WaitQueue::new(Word::UNSET))
        }
    }

    const_fn! {
        /// An unset event that lets one who waits go, or one who comes.
        pub const fn auto() -> Self {
            Self(WaitQueue::new(Word::AUTO | Word::UNSET))
        }
    }

    fn word(&self) -> &AtomicU32 {
        self.0.word()
    }

    fn load(&self, ordering: Ordering) -> Word {
        Word(self.word().load(ordering))
    }

    fn change(&self, from: Word, to: Word, ordering: Ordering) -> Result<(), Word> {
        let change = self.word().compare_exchange_weak(from.0, to.0, ordering, Ordering::Relaxed);
        change.map(drop).map_err(Word)
    }

    /// Whether it lets one go for each time that it is set.
    pub fn is_auto(&self) -> bool {
        self.load(Ordering::Relaxed).is_auto()
    }

    /// Whether it is set, in the eyes of whoever asks.
    pub fn is_set(&self) -> bool {
        // Acquire: pairs with the Release in `set_fast` and `set`.
        self.load(Ordering::Acquire).is_set()
    }

    /// Passes if it is set.
    #[inline]
    #[must_use]
    pub fn try_pass(&self) -> bool {
        // Acquire, here and below: pairs with the Release in `set_fast` and `set`.
        let mut word = self.load(Ordering::Acquire);
        while let Some(next) = word.passed() {
            if next == word {
                return true;
            }
            match self.change(word, next, Ordering::Acquire) {
                Ok(()) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Passes if it is set, or puts `node` into the queue: then false, and it has passed once it is
    /// claimed.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`](crate::wait::Locked::enqueue); the queue is left by
    /// [`leave`](Self::leave).
    #[must_use]
    pub unsafe fn pass(&self, by: &impl Contender, node: NonNull<Node<W>>) -> bool {
        let mut queue = self.0.lock(by);
        if !self.announce() {
            return true;
        }
        // SAFETY: passed on to the caller.
        unsafe { queue.enqueue(node) };
        false
    }

    /// Says that somebody is queued, so that who sets the event will look; false if the caller could
    /// pass instead. Under the queue lock.
    fn announce(&self) -> bool {
        let mut word = self.load(Ordering::Relaxed);
        loop {
            let passed = if cfg!(weaken = "event-announce") { None } else { word.passed() };
            let next = passed.unwrap_or(word.with(Word::AWAITED));
            // Acquire: as in `try_pass`.
            match self.change(word, next, Ordering::Acquire) {
                Ok(()) => return passed.is_none(),
                Err(seen) => word = seen,
            }
        }
    }

    /// Sets it if nobody waits; otherwise false, and [`set`](Self::set) is due.
    #[inline]
    #[must_use = "otherwise `set` is due"]
    pub fn set_fast(&self) -> bool {
        // Release: pairs with the Acquire of who passes, and of who resets it.
        let release = unless_weakened!("event-set", Ordering::Release);
        let mut word = self.load(Ordering::Relaxed);
        // Exchanged though it is set already: who passes sees what came before the last of those.
        while let Some(next) = word.set() {
            match self.change(word, next, release) {
                Ok(()) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Sets it, and returns whom the caller wakes: all who waited, or the first if it is automatic,
    /// which leaves it unset.
    pub fn set(&self, by: &impl Contender) -> Taken<W> {
        let mut queue = self.0.lock(by);
        if self.set_fast() {
            return Taken::NONE;
        }
        let word = self.load(Ordering::Relaxed);
        let taken = if word.is_auto() { queue.take_one() } else { queue.take_all() };
        let state = match (word.is_auto(), queue.is_empty()) {
            (false, _) => Word::SET,
            (true, true) => Word::UNSET,
            (true, false) => Word::AWAITED,
        };
        // A store: while it is awaited the word changes under the queue lock only. Release: as in
        // `set_fast`; whom it takes sees it by his claim.
        self.word().store(word.with(state).0, Ordering::Release);
        taken
    }

    /// Takes back that it was set.
    pub fn reset(&self) {
        let mut word = self.load(Ordering::Relaxed);
        while word.is_set() {
            // Acquire: who looks, after this, for what was announced by the set sees it.
            match self.change(word, word.with(Word::UNSET), Ordering::Acquire) {
                Ok(()) => return,
                Err(seen) => word = seen,
            }
        }
    }

    /// Takes `node` out of the queue, unless it was claimed before.
    ///
    /// [`Unlinked::AlreadyGone`]: its waiter is woken, and has passed.
    ///
    /// # Safety
    ///
    /// `node` is alive, and was given to this event's [`pass`](Self::pass) last.
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        let mut queue = self.0.lock(by);
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { queue.unlink(node) };
        if unlinked == Unlinked::Mine && queue.is_empty() {
            let unset = self.load(Ordering::Relaxed).with(Word::UNSET);
            // A store, as in `set`. Relaxed: nothing comes with it.
            self.word().store(unset.0, Ordering::Relaxed);
        }
        unlinked
    }
}
