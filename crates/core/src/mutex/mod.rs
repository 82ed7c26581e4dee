//! The lock behind a mutex: its word, its queue, and when it is handed over.
//!
//! README.md beside this file has the protocol. Waiting and waking are the caller's job.

mod word;

use std::ptr::NonNull;

use self::word::{MutexWord, Released};
use crate::atomic::{AtomicU32, Ordering, const_fn, spin_loop, unless_weakened};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Locked, Node, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Number of other holders after which the lock is handed to a waiter that has been woken.
pub const MOST_BARGED: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 256 };

/// Number of looks at a held lock before the caller waits. Each gap before a look is twice as long
/// as the previous: a look takes the line from the holder, which meanwhile could have taken the
/// lock many times.
const LOOKS: u32 = 3;
/// Number of pauses in the gap before the first look.
const FIRST_GAP: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// Notes that a claimed waiter reads in its node.
pub mod note {
    /// The lock was freed: try to get it, as [`Arrival::Woken`](super::Arrival::Woken).
    pub const WOKEN: u8 = 0;
    /// The lock is the waiter's.
    pub const HANDED_OVER: u8 = 1;
    /// No attempt at the lock was made: ask for it, as [`Arrival::New`](super::Arrival::New). Left
    /// by a [condition variable](crate::condvar).
    pub const NOTIFIED: u8 = 2;
}

/// A lock with a queue, 16 bytes.
///
/// Budget: one RMW to take it and one to free it while there is no waiter.
pub struct RawMutex<W>(WaitQueue<W>);

/// The word of a lock that the fast path could not take.
#[derive(Clone, Copy, Debug)]
pub struct Seen(MutexWord);

/// The way a caller comes to ask for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// First time.
    New,
    /// Claimed with [`note::WOKEN`].
    Woken,
    /// Claimed likewise, after so long a wait that the lock is to be handed over next time.
    Late,
}

/// The result of [`RawMutex::acquire`].
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
        /// Creates a free lock without waiters.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self(WaitQueue::new(MutexWord::FREE.0))
        }
    }

    fn word(&self) -> &AtomicU32 {
        self.0.word()
    }

    fn load(&self) -> MutexWord {
        // Relaxed: an exchange decides, or the queue lock is held.
        MutexWord(self.word().load(Ordering::Relaxed))
    }

    /// Takes the lock if it is free, has no waiters, and is not poisoned: the fast path.
    ///
    /// # Errors
    ///
    /// The word that was found instead, for [`try_acquire_seen`](Self::try_acquire_seen).
    #[inline]
    pub fn acquire_fast(&self) -> Result<(), Seen> {
        self.change(MutexWord::FREE, MutexWord::FREE.locked(), Ordering::Acquire).map_err(Seen)
    }

    /// Takes the lock if it is free, even ahead of queued waiters.
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        self.take(self.load(), Arrival::New)
    }

    /// Takes the lock as [`try_acquire`](Self::try_acquire) does, unless it was held when `seen`
    /// was found. Right after the failed exchange, a load would wait for it.
    #[must_use]
    pub fn try_acquire_seen(&self, seen: Seen) -> bool {
        self.take(seen.0, Arrival::New)
    }

    /// Takes the lock if it is freed within about the time of a wake. Worth the time if the holder
    /// may run on another worker. Does not look where the lock is left to a waiter, which may have
    /// to run on the caller's worker.
    #[cold]
    #[must_use]
    pub fn try_acquire_soon(&self) -> bool {
        !self.load().is_left_to_waiter()
            && (0..LOOKS).any(|look| {
                for _ in 0..FIRST_GAP << look {
                    spin_loop();
                }
                !self.load().is_locked() && self.try_acquire()
            })
    }

    /// Takes the lock if it is free, or was handed to the waiter on its way, and the caller is that
    /// waiter.
    fn take(&self, mut word: MutexWord, arrival: Arrival) -> bool {
        while let Some(next) = word.taken(arrival) {
            match self.change(word, next, Ordering::Acquire) {
                Ok(()) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Exchanges the word. Acquire, to take the lock, pairs with Release, to free it.
    fn change(&self, from: MutexWord, to: MutexWord, ordering: Ordering) -> Result<(), MutexWord> {
        self.word()
            .compare_exchange_weak(from.0, to.0, ordering, Ordering::Relaxed)
            .map_or_else(|seen| Err(MutexWord(seen)), |_| Ok(()))
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
        if self.take(self.load(), arrival) {
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
    fn take_or(&self, otherwise: impl Fn(MutexWord) -> MutexWord, arrival: Arrival) -> bool {
        let mut word = self.load();
        loop {
            let taken = word.taken(arrival);
            match self.change(word, taken.unwrap_or(otherwise(word)), Ordering::Acquire) {
                Ok(()) => return taken.is_some(),
                Err(seen) => word = seen,
            }
        }
    }

    /// Takes the lock, or sets QUEUED, so that the holder looks into the queue when it frees the
    /// lock. Under the queue lock.
    fn take_or_announce(&self, arrival: Arrival) -> bool {
        if cfg!(weaken = "mutex-announce") {
            self.word().fetch_or(MutexWord::FREE.announced(arrival).0, Ordering::Relaxed);
            return false;
        }
        self.take_or(|word| word.announced(arrival), arrival)
    }

    /// Frees the lock if there are no waiters: the fast path. Only for its holder.
    #[inline]
    #[must_use = "otherwise `release` is due"]
    pub fn release_fast(&self) -> bool {
        // Release: pairs with the Acquire in `take` and `take_or`, by which the next holder takes
        // it.
        let release = unless_weakened!("mutex-release", Ordering::Release);
        let (held, free) = (MutexWord::FREE.locked(), MutexWord::FREE);
        self.change(held, free, release).is_ok()
    }

    /// Frees the lock, or gives it to a waiter. Only for its holder.
    ///
    /// Returns the waiter to wake, exactly once.
    #[must_use = "the waiter is to be woken"]
    pub fn release(&self, by: &impl Contender) -> Option<W> {
        self.release_and_leave(by, |_| false)
    }

    /// Frees the lock as [`release`](Self::release) does, for a holder that waits for another
    /// object right afterwards: the lock is handed over to the first in line if `runs_next` says
    /// that it runs then.
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

    /// Hands the lock directly to the waiter of `next`, which was claimed with [`note::NOTIFIED`]
    /// and now reads [`note::HANDED_OVER`]. Returns false, and does nothing, if the lock has queued
    /// waiters, one on its way, or poison. Only for its holder.
    ///
    /// # Safety
    ///
    /// `next` is alive and claimed, and its waiter goes on, and reads its note, on the caller's
    /// thread, behind this call.
    #[must_use = "otherwise `release` is due"]
    pub unsafe fn hand_off(&self, next: NonNull<Node<W>>) -> bool {
        let is_uncontended = self.load() == MutexWord::FREE.locked();
        if is_uncontended {
            // SAFETY: passed on to the caller.
            unsafe { Node::set_note(next, note::HANDED_OVER) };
        }
        is_uncontended
    }

    /// Frees the lock to the first in line. The queue lock is held to the end: until then the
    /// claimed waiter is not on its way.
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
        // A store: the queue's bits, and the poison that other threads clear, change under the
        // queue lock; no waiter is on its way; the rest is the holder's. Release: pairs with the
        // Acquire in `take` and `take_or`.
        self.word().store(word.released_to(next, !queue.is_empty()).0, Ordering::Release);
        first
    }

    /// Takes over a waiter from the queue of a condition variable. The waiter is treated as if it
    /// had asked for the lock, or, if the lock is free, as if it had been woken to do so. Returns
    /// the waiter to wake.
    ///
    /// # Safety
    ///
    /// `node` was taken by [`Locked::take_first`], and has been in no queue since.
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
    /// [`Unlinked::AlreadyGone`]: its waiter is woken, and has to ask for the lock, or to
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
            // Relaxed: nothing is published with it.
            self.word().fetch_and(!MutexWord::QUEUE.0, Ordering::Relaxed);
        }
        unlinked
    }

    /// Gives up the lock on behalf of a waiter that was claimed with `note` and does not want it
    /// any more. Returns the waiter to wake instead.
    #[must_use = "the waiter is to be woken"]
    pub fn give_way(&self, by: &impl Contender, note: u8) -> Option<W> {
        // A waiter on its way that turns back while the lock is held leaves the look into the queue
        // to the holder.
        let has_it =
            note == note::HANDED_OVER || self.take_or(|word| word.without_waking(), Arrival::Woken);
        if has_it { self.release(by) } else { None }
    }

    /// Returns true if the lock is held. The answer may be out of date at once.
    pub fn is_locked(&self) -> bool {
        self.load().is_locked()
    }

    /// Returns true if a holder panicked, and the poison has not been cleared.
    pub fn is_poisoned(&self) -> bool {
        self.load().is_poisoned()
    }

    /// Records that the holder panics. Only for the holder.
    #[cold]
    pub fn poison(&self) {
        // Relaxed: the next holder sees it by the release that follows.
        self.word().fetch_or(MutexWord::POISON.0, Ordering::Relaxed);
    }

    /// Clears the poison.
    pub fn clear_poison(&self, by: &impl Contender) {
        let _queue = self.0.lock(by);
        // Relaxed: nothing is published with it.
        self.word().fetch_and(!MutexWord::POISON.0, Ordering::Relaxed);
    }
}
