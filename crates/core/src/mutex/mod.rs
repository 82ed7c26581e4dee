//! The lock behind a mutex: who has it, who waits for it, and when it is handed over.
//!
//! README.md beside this file has the protocol. Waiting and waking are the caller's job.

mod word;

use std::ptr::NonNull;

use self::word::{Released, Word};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::sync::{AtomicU32, Ordering, const_fn, spin_loop, unless_weakened};
use crate::wait::{Locked, Node, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// After so many others have had the lock since a waiter was woken, it is that waiter's.
pub const MOST_BARGED: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 256 };

/// How often somebody looks at a lock that is held, each time twice as long after the last, before he waits.
const LOOKS: u32 = 4;

/// What a claimed waiter reads in its node.
pub mod note {
    /// The lock was freed: try to get it, as [`Arrival::Woken`](super::Arrival::Woken).
    pub const WOKEN: u8 = 0;
    /// The lock is the waiter's.
    pub const HANDED_OVER: u8 = 1;
    /// Nothing was done about the lock: ask for it, as [`Arrival::New`](super::Arrival::New). By a
    /// [condition](crate::condvar).
    pub const NOTIFIED: u8 = 2;
}

/// A lock with a queue, 16 bytes.
///
/// Budget: one RMW to take it and one to free it while nobody waits.
pub struct RawMutex<W>(WaitQueue<W>);

/// How somebody comes to ask for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// For the first time.
    New,
    /// Claimed with [`note::WOKEN`].
    Woken,
    /// As `Woken`, after so long a wait that the lock is to be handed over next time.
    Late,
}

/// What came of [`RawMutex::acquire`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// The lock is the caller's.
    Acquired,
    /// The node is queued: wait until it is claimed, and read its note.
    Queued,
}

impl<W: Copy> RawMutex<W> {
    const_fn! {
        /// A free lock that nobody waits for.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self(WaitQueue::new(Word::FREE.0))
        }
    }

    fn word(&self) -> &AtomicU32 {
        self.0.word()
    }

    fn load(&self) -> Word {
        // Relaxed: what follows is decided by an exchange, or under the queue lock.
        Word(self.word().load(Ordering::Relaxed))
    }

    /// Takes the lock if it is free, whoever waits.
    #[inline]
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        self.take(Arrival::New)
    }

    /// Takes the lock if it is freed within about the time of a wake. Worth the time if the holder may run
    /// elsewhere.
    #[cold]
    #[must_use]
    pub fn try_acquire_soon(&self) -> bool {
        (0..LOOKS).any(|look| {
            for _ in 0..1 << look {
                spin_loop();
            }
            !self.load().is_locked() && self.try_acquire()
        })
    }

    /// Takes the lock if it is free, or was handed to a waiter on its way, and the caller is that.
    fn take(&self, arrival: Arrival) -> bool {
        let mut word = self.load();
        while let Some(next) = word.taken(arrival) {
            match self.change(word, next, Ordering::Acquire) {
                Ok(()) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Acquire, to take the lock, pairs with Release, to free it.
    fn change(&self, from: Word, to: Word, ordering: Ordering) -> Result<(), Word> {
        let change = self.word().compare_exchange_weak(from.0, to.0, ordering, Ordering::Relaxed);
        change.map(drop).map_err(Word)
    }

    /// Takes the lock, or puts `node` into the queue.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`]; the queue is left by [`leave`](Self::leave).
    pub unsafe fn acquire(
        &self,
        by: &impl Contender,
        node: NonNull<Node<W>>,
        arrival: Arrival,
    ) -> Acquire {
        if self.take(arrival) {
            return Acquire::Acquired;
        }
        let mut queue = self.0.lock(by);
        if self.take_or_announce(arrival) {
            return Acquire::Acquired;
        }
        // SAFETY: passed on to the caller.
        unsafe {
            match arrival {
                Arrival::New => queue.enqueue(node),
                Arrival::Woken | Arrival::Late => queue.enqueue_first(node),
            }
        }
        Acquire::Queued
    }

    /// Takes the lock, if the caller may, or changes the word by `otherwise`, in one exchange.
    fn take_or(&self, otherwise: impl Fn(Word) -> Word, arrival: Arrival) -> bool {
        let mut word = self.load();
        loop {
            let taken = word.taken(arrival);
            match self.change(word, taken.unwrap_or(otherwise(word)), Ordering::Acquire) {
                Ok(()) => return taken.is_some(),
                Err(seen) => word = seen,
            }
        }
    }

    /// Takes the lock, or says that somebody is queued, so that who frees it will look. Under the
    /// queue lock.
    fn take_or_announce(&self, arrival: Arrival) -> bool {
        if cfg!(weaken = "mutex-announce") {
            self.word().fetch_or(Word::FREE.announced(arrival).0, Ordering::Relaxed);
            return false;
        }
        self.take_or(|word| word.announced(arrival), arrival)
    }

    /// Frees the lock if nobody has anything to do with it: the fast path. Only its holder.
    #[inline]
    #[must_use = "otherwise `release` is due"]
    pub fn release_fast(&self) -> bool {
        // Release: pairs with the Acquire of whoever takes it next.
        let release = unless_weakened!("mutex-release", Ordering::Release);
        let (held, free) = (Word::FREE.locked(), Word::FREE);
        // An exchange that is bound to fail costs as much as one that does not.
        self.load() == held && self.change(held, free, release).is_ok()
    }

    /// Frees the lock, or gives it to a waiter. Only its holder.
    ///
    /// Returns whom to wake, exactly once.
    #[must_use = "the waiter is to be woken"]
    pub fn release(&self, by: &impl Contender) -> Option<W> {
        self.release_and_leave(by, |_| false)
    }

    /// As [`release`](Self::release), by who waits for something else right afterwards: the lock is
    /// handed over to the first in line if `runs_next` says of it that it runs then.
    #[must_use = "the waiter is to be woken"]
    pub fn release_and_leave(
        &self,
        by: &impl Contender,
        runs_next: impl FnOnce(W) -> bool,
    ) -> Option<W> {
        let mut word = self.load();
        while let Some(next) = word.released() {
            match self.change(word, next, Ordering::Release) {
                Ok(()) => return None,
                Err(seen) => word = seen,
            }
        }
        self.release_to_first(self.0.lock(by), runs_next)
    }

    /// Leaves the lock to the waiter of `heir`, who was claimed with [`note::NOTIFIED`], and now reads
    /// [`note::HANDED_OVER`]; false if anybody else has to do with the lock. Only its holder.
    ///
    /// # Safety
    ///
    /// `heir` is alive, and its waiter goes on, and reads its note, on the caller's thread, behind this call.
    #[must_use = "otherwise `release` is due"]
    pub unsafe fn leave_to(&self, heir: NonNull<Node<W>>) -> bool {
        let nobody_else = self.load() == Word::FREE.locked();
        if nobody_else {
            // SAFETY: passed on to the caller.
            unsafe { Node::set_note(heir, note::HANDED_OVER) };
        }
        nobody_else
    }

    /// Under the queue lock, held to the end: until then the claimed waiter is not on its way.
    fn release_to_first(
        &self,
        mut queue: Locked<'_, W>,
        runs_next: impl FnOnce(W) -> bool,
    ) -> Option<W> {
        let word = self.load();
        let hand_over = word.is_urgent() || queue.first().is_some_and(runs_next);
        let note = if hand_over { note::HANDED_OVER } else { note::WOKEN };
        let first = queue.claim_first(note);
        let next = match (&first, hand_over) {
            (None, _) => Released::Free,
            (Some(_), false) => Released::Waking,
            (Some(_), true) => Released::HandedOver,
        };
        // A store: the queue's bits and the poison of others change under the queue lock, nobody is
        // on his way, and the rest is the holder's. Release: pairs with the Acquire of who takes it.
        self.word().store(word.released_to(next, !queue.is_empty()).0, Ordering::Release);
        first
    }

    /// Takes over a waiter from the queue of a condition variable: as if it had asked for the lock,
    /// or had been woken to do so if nobody has it. Whom to wake.
    ///
    /// # Safety
    ///
    /// `node` was taken by [`Locked::take_first`], and is in no queue since.
    #[must_use = "the waiter is to be woken"]
    pub unsafe fn adopt(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Option<W> {
        let mut queue = self.0.lock(by);
        let mut word = self.load();
        loop {
            let waking = word.waking();
            let next = waking.unwrap_or(word.announced(Arrival::New));
            match self.change(word, next, Ordering::Relaxed) {
                Ok(()) if waking.is_some() => {
                    // SAFETY: taken and in no queue, by this function's contract.
                    return Some(unsafe { queue.claim_taken(node, note::WOKEN) });
                }
                Ok(()) => break,
                Err(seen) => word = seen,
            }
        }
        // SAFETY: as above; a moved node stays in place until it is claimed.
        unsafe { queue.enqueue(node) };
        None
    }

    /// Takes `node` out of the queue, unless it was claimed before.
    ///
    /// [`Unlinked::AlreadyGone`]: its waiter is woken, and has to come and ask for the lock, or
    /// [`give_way`](Self::give_way).
    ///
    /// # Safety
    ///
    /// `node` is alive, and was given to this lock's [`acquire`](Self::acquire) last.
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        let mut queue = self.0.lock(by);
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { queue.unlink(node) };
        if unlinked == Unlinked::Mine && queue.is_empty() {
            // Relaxed: nothing comes with it.
            self.word().fetch_and(!Word::QUEUE.0, Ordering::Relaxed);
        }
        unlinked
    }

    /// By a waiter that was claimed with `note` and does not want the lock any more: whom to wake
    /// instead.
    #[must_use = "the waiter is to be woken"]
    pub fn give_way(&self, by: &impl Contender, note: u8) -> Option<W> {
        // Who is on his way and turns back while somebody has the lock leaves it to him to look
        // into the queue.
        let has_it =
            note == note::HANDED_OVER || self.take_or(|word| word.without_waking(), Arrival::Woken);
        if has_it { self.release(by) } else { None }
    }

    /// Whether somebody holds the lock, in the eyes of whoever asks.
    pub fn is_locked(&self) -> bool {
        self.load().is_locked()
    }

    /// Whether a holder panicked, and nobody has cleared that.
    pub fn is_poisoned(&self) -> bool {
        self.load().is_poisoned()
    }

    /// Notes that the holder panics. Only the holder.
    #[cold]
    pub fn poison(&self) {
        // Relaxed: who takes the lock next sees it, by the release that follows.
        self.word().fetch_or(Word::POISON.0, Ordering::Relaxed);
    }

    /// Takes that note back.
    pub fn clear_poison(&self, by: &impl Contender) {
        let _queue = self.0.lock(by);
        // Relaxed: nothing comes with it.
        self.word().fetch_and(!Word::POISON.0, Ordering::Relaxed);
    }
}
