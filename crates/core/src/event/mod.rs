//! An event, set or not, and the queue of waiters for it.
//!
//! README.md beside this file has the protocol. Waiting and waking are the caller's job.

use std::ptr::NonNull;

use crate::atomic::{AtomicU32, Ordering, const_fn, unless_weakened};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Node, Taken, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// An event with a queue, 16 bytes.
///
/// Budget without waiters: one RMW to set it; to pass, one load if it is manual, one RMW if not.
pub struct RawEvent<W>(WaitQueue<W>);

/// The word.
///
/// ```text
/// 31      3   2    1     0
/// | unused | AUTO | state |
/// state: 0 = UNSET, 1 = SET, 2 = AWAITED: unset, and somebody is queued
/// ```
///
/// `AUTO` never changes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EventWord(u32);

impl EventWord {
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

    const fn with(self, state: u32) -> EventWord {
        EventWord(self.0 & !Self::STATE | state)
    }

    /// Returns the word after a caller has passed; `None` if it may not.
    fn passed(self) -> Option<EventWord> {
        self.is_set().then(|| if self.is_auto() { self.with(Self::UNSET) } else { self })
    }

    /// Returns the word after a set without a look into the queue; `None` if the look is needed.
    fn set(self) -> Option<EventWord> {
        (!self.is_awaited()).then_some(self.with(Self::SET))
    }
}

impl<W: Copy> RawEvent<W> {
    const_fn! {
        /// Creates an unset event that releases all waiters, and lets all callers pass, until it is
        /// reset.
        pub const fn manual() -> Self {
            Self(WaitQueue::new(EventWord::UNSET))
        }
    }

    const_fn! {
        /// Creates an unset event that releases one waiter, or lets one caller pass, for each set.
        pub const fn auto() -> Self {
            Self(WaitQueue::new(EventWord::AUTO | EventWord::UNSET))
        }
    }

    fn word(&self) -> &AtomicU32 {
        self.0.word()
    }

    fn load(&self, ordering: Ordering) -> EventWord {
        EventWord(self.word().load(ordering))
    }

    fn change(&self, from: EventWord, to: EventWord, ordering: Ordering) -> Result<(), EventWord> {
        let change = self.word().compare_exchange_weak(from.0, to.0, ordering, Ordering::Relaxed);
        change.map(drop).map_err(EventWord)
    }

    /// Returns true if it releases one waiter each time that it is set.
    pub fn is_auto(&self) -> bool {
        self.load(Ordering::Relaxed).is_auto()
    }

    /// Returns true if it is set. The answer may be out of date at once.
    pub fn is_set(&self) -> bool {
        // Acquire: pairs with the Release in `set_fast` and `set`.
        self.load(Ordering::Acquire).is_set()
    }

    /// Passes and returns true if it is set.
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

    /// Passes and returns true if it is set; otherwise puts `node` into the queue and returns
    /// false: it has passed once it is claimed.
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

    /// Announces a waiter, so that a set will look for it; returns false if the caller could pass
    /// instead. Under the queue lock.
    fn announce(&self) -> bool {
        let mut word = self.load(Ordering::Relaxed);
        loop {
            let passed = if cfg!(weaken = "event-announce") { None } else { word.passed() };
            let next = passed.unwrap_or(word.with(EventWord::AWAITED));
            // Acquire: as in `try_pass`.
            match self.change(word, next, Ordering::Acquire) {
                Ok(()) => return passed.is_none(),
                Err(seen) => word = seen,
            }
        }
    }

    /// Sets it and returns true if there is no waiter; otherwise returns false, and
    /// [`set`](Self::set) is due.
    #[inline]
    #[must_use = "otherwise `set` is due"]
    pub fn set_fast(&self) -> bool {
        // Release: pairs with the Acquire of a thread that passes, or resets it.
        let release = unless_weakened!("event-set", Ordering::Release);
        let mut word = self.load(Ordering::Relaxed);
        // Exchanged even if it is set already, so that a thread that passes sees the writes before
        // the last set.
        while let Some(next) = word.set() {
            match self.change(word, next, release) {
                Ok(()) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Sets it, and returns the waiters that the caller wakes: all, or the first if it is
    /// automatic, which leaves it unset.
    pub fn set(&self, by: &impl Contender) -> Taken<W> {
        let mut queue = self.0.lock(by);
        if self.set_fast() {
            return Taken::NONE;
        }
        let word = self.load(Ordering::Relaxed);
        let taken = if word.is_auto() { queue.take_one() } else { queue.take_all() };
        let state = match (word.is_auto(), queue.is_empty()) {
            (false, _) => EventWord::SET,
            (true, true) => EventWord::UNSET,
            (true, false) => EventWord::AWAITED,
        };
        // A store: while it is AWAITED the word changes under the queue lock only. Release: as in
        // `set_fast`; the taken waiters see it by their claim.
        self.word().store(word.with(state).0, Ordering::Release);
        taken
    }

    /// Takes a set back.
    pub fn reset(&self) {
        let mut word = self.load(Ordering::Relaxed);
        while word.is_set() {
            // Acquire: pairs with the Release of the set, so that a later look for the announced
            // data finds it.
            match self.change(word, word.with(EventWord::UNSET), Ordering::Acquire) {
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
            let unset = self.load(Ordering::Relaxed).with(EventWord::UNSET);
            // A store, as in `set`. Relaxed: nothing is published with it.
            self.word().store(unset.0, Ordering::Relaxed);
        }
        unlinked
    }
}
