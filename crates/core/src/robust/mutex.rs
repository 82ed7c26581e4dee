//! A lock that can be taken over from a dead holder.

use super::{Holder, MOST_TRIES, SeenWord};
use crate::atomic::{AtomicU64, Ordering, const_fn, unless_weakened};

/// A lock of 8 bytes, which names its holder.
///
/// Budget, uncontended: one RMW to lock it, without a load before; one RMW to unlock it, after a
/// load. One line.
///
/// ```
/// use daiko_core::robust::{FoundData, Holder, Lock, RobustMutex, Unlock};
///
/// let [me, other] = [0, 1].map(|index| Holder::new(index, 1.try_into().unwrap()));
/// let mutex = RobustMutex::new();
/// assert_eq!(mutex.try_lock(me, |_| false), Lock::Locked(FoundData::Clean));
/// assert!(matches!(mutex.try_lock(other, |_| false), Lock::Held { by, .. } if by == me));
/// // The holder is killed. Only the next holder gets `OwnerDied`.
/// assert_eq!(mutex.try_lock(other, |who| who == me), Lock::Locked(FoundData::OwnerDied));
/// mutex.clear_poison();
/// assert_eq!(mutex.unlock(other), Unlock::Quiet);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RobustMutex(AtomicU64);

/// The word. A zeroed word is free.
///
/// ```text
/// 63        32 31   16 15     2     1          0
/// | generation | index | unused | POISONED | WAITED |
/// ```
///
/// * Without a generation it is free, and `WAITED` has no meaning.
/// * `WAITED`: an attachment waits for this holder, which rings when it unlocks.
/// * `POISONED`: a holder died, or unlocked it as poisoned, and the data has not been repaired
///   since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RobustMutexWord(u64);

impl RobustMutexWord {
    const WAITED: u64 = 1;
    const POISONED: u64 = 2;

    fn holder(self) -> Option<Holder> {
        Holder::of(self.0)
    }

    const fn is_waited(self) -> bool {
        self.0 & Self::WAITED != 0
    }

    const fn is_poisoned(self) -> bool {
        self.0 & Self::POISONED != 0
    }

    const fn waited(self) -> RobustMutexWord {
        RobustMutexWord(self.0 | Self::WAITED)
    }

    /// Returns a free word, with the poison kept.
    const fn free(poisoned: bool) -> RobustMutexWord {
        RobustMutexWord(if poisoned { Self::POISONED } else { 0 })
    }

    /// Returns the word after `me` has found it free.
    const fn taken(self, me: Holder) -> RobustMutexWord {
        RobustMutexWord(me.bits() | self.0 & Self::POISONED)
    }

    /// Returns the word after `me` has found its holder dead. Waiters will still be rung for.
    const fn inherited(self, me: Holder) -> RobustMutexWord {
        let poisoned = if cfg!(weaken = "robust-mutex-inherit") { 0 } else { Self::POISONED };
        RobustMutexWord(me.bits() | self.0 & Self::WAITED | poisoned)
    }

    const fn found(self) -> FoundData {
        if self.is_poisoned() { FoundData::Poisoned } else { FoundData::Clean }
    }
}

/// The state of the data, as a new holder finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundData {
    /// All holders have left in order, or the data has been repaired since.
    Clean,
    /// The last holder died while it had the lock. Each death is reported once. Until the new
    /// holder [clears](RobustMutex::clear_poison) the poison, later holders get `Poisoned`.
    OwnerDied,
    /// A holder died or failed while it had the lock, and the data has not been repaired since.
    Poisoned,
}

/// The outcome of a try to lock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The caller has it.
    Locked(FoundData),
    /// `by` has it, and is not known to be dead. A waiter [announces itself](RobustMutex::wait_for)
    /// first.
    Held {
        /// The holder; watch for its death.
        by: Holder,
        /// The word that said so.
        seen: SeenWord,
    },
    /// The word changed under each of many tries. Another try is worth while.
    Contended,
}

/// The outcome of an unlock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// No attachment waits.
    Quiet,
    /// An attachment may wait: the caller rings for all that do, as none of them rings for another.
    Ring,
    /// The lock was not the caller's: a peer has written to the word. It is free now.
    NotMine,
}

impl RobustMutex {
    const_fn! {
        /// Creates a free and clean lock.
        pub const fn new() -> Self {
            Self(AtomicU64::new(RobustMutexWord::free(false).0))
        }
    }

    /// Takes the lock if it is free, or if `is_dead` says so of its holder.
    ///
    /// The threads of one attachment are one holder: which of them has the lock is up to that
    /// process.
    #[inline]
    pub fn try_lock(&self, me: Holder, is_dead: impl Fn(Holder) -> bool) -> Lock {
        match self.change(RobustMutexWord::free(false), RobustMutexWord::free(false).taken(me)) {
            Ok(()) => Lock::Locked(FoundData::Clean),
            Err(seen) => self.try_lock_slow(seen, me, is_dead),
        }
    }

    #[cold]
    fn try_lock_slow(
        &self,
        mut seen: RobustMutexWord,
        me: Holder,
        is_dead: impl Fn(Holder) -> bool,
    ) -> Lock {
        for _ in 0..MOST_TRIES {
            let (next, found) = match seen.holder() {
                None => (seen.taken(me), seen.found()),
                Some(by) if !is_dead(by) => return Lock::Held { by, seen: SeenWord(seen.0) },
                Some(_) => (seen.inherited(me), FoundData::OwnerDied),
            };
            match self.change(seen, next) {
                Ok(()) => return Lock::Locked(found),
                Err(other) => seen = other,
            }
        }
        Lock::Contended
    }

    fn change(&self, from: RobustMutexWord, to: RobustMutexWord) -> Result<(), RobustMutexWord> {
        // Acquire: pairs with the Release in `leave`. The writes of a dead holder are seen through
        // the report of its death.
        let acquire = unless_weakened!("robust-mutex-lock", Ordering::Acquire);
        let changed = self.0.compare_exchange(from.0, to.0, acquire, Ordering::Relaxed);
        changed.map(drop).map_err(RobustMutexWord)
    }

    /// Tells the holder that was `seen` that the caller waits. Returns the word to wait for a
    /// change of; `None` if the holder has left, and another try is worth while.
    #[must_use = "if the word has changed already, no ring comes"]
    pub fn wait_for(&self, seen: SeenWord) -> Option<SeenWord> {
        let waited = RobustMutexWord(seen.0).waited();
        // Release: pairs with the Acquire in `leave`, so that a holder that sees WAITED knows where
        // to ring. Exchanged even if WAITED is set: the earlier waiter has not said where this one
        // is to be rung for.
        let release = unless_weakened!("robust-mutex-wait", Ordering::Release);
        let said = self.0.compare_exchange(seen.0, waited.0, release, Ordering::Relaxed);
        said.is_ok().then_some(SeenWord(waited.0))
    }

    /// Returns true if the word differs from the word that was `seen`, so that another try to lock
    /// is worth while.
    #[inline]
    pub fn has_changed(&self, seen: SeenWord) -> bool {
        self.0.load(Ordering::Relaxed) != seen.0
    }

    /// Unlocks, and keeps the poison.
    #[inline]
    pub fn unlock(&self, me: Holder) -> Unlock {
        // Relaxed: only the holder changes the bits that this keeps.
        let poisoned = RobustMutexWord(self.0.load(Ordering::Relaxed)).is_poisoned();
        self.leave(me, RobustMutexWord::free(poisoned))
    }

    /// Unlocks, and poisons it.
    pub fn unlock_poisoned(&self, me: Holder) -> Unlock {
        self.leave(me, RobustMutexWord::free(true))
    }

    fn leave(&self, me: Holder, free: RobustMutexWord) -> Unlock {
        // Release: pairs with the Acquire in `change`. Acquire: pairs with the Release in
        // `wait_for`.
        let order = unless_weakened!("robust-mutex-unlock", Ordering::AcqRel);
        let was = RobustMutexWord(self.0.swap(free.0, order));
        match was.holder() {
            Some(holder) if holder == me && was.is_waited() => Unlock::Ring,
            Some(holder) if holder == me => Unlock::Quiet,
            _ => Unlock::NotMine,
        }
    }

    /// Clears the poison: the data is in order again. Only for the holder.
    pub fn clear_poison(&self) {
        // Relaxed: later holders see it by the unlock.
        self.0.fetch_and(!RobustMutexWord::POISONED, Ordering::Relaxed);
    }

    /// Returns the state of the data for a caller that shares the lock while it is free.
    ///
    /// # Errors
    ///
    /// If it is held: the holder, which may be dead, and the word that said so.
    #[inline]
    pub fn found(&self) -> Result<FoundData, (Holder, SeenWord)> {
        // Acquire: pairs with the Release in `leave`.
        let word = RobustMutexWord(self.0.load(Ordering::Acquire));
        word.holder().map_or(Ok(word.found()), |by| Err((by, SeenWord(word.0))))
    }

    /// Frees the lock of the dead holder that was `seen`, without a new holder. The caller rings,
    /// and reports the death as a new holder would. Returns false if another attachment was faster.
    pub(super) fn bury(&self, seen: SeenWord) -> bool {
        // Release: pairs with the Acquire in `change`; the next holder sees the caller's writes.
        // Acquire: as in `change`.
        let (order, free) = (Ordering::AcqRel, RobustMutexWord::free(true));
        self.0.compare_exchange(seen.0, free.0, order, Ordering::Relaxed).is_ok()
    }

    /// Returns the holder, which may be dead. The answer may be out of date at once.
    pub fn holder(&self) -> Option<Holder> {
        // Acquire: pairs with the Release in `leave`.
        RobustMutexWord(self.0.load(Ordering::Acquire)).holder()
    }

    /// Returns true if the next holder would find it poisoned, provided that the present holder
    /// lives.
    pub fn is_poisoned(&self) -> bool {
        RobustMutexWord(self.0.load(Ordering::Relaxed)).is_poisoned()
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<RobustMutex>() == 8 && RobustMutexWord::free(false).0 == 0);

impl Default for RobustMutex {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl RobustMutex {
    /// Stores any word, as a peer may.
    pub(super) fn spoil(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
