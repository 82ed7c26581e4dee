//! A lock that is taken over from the dead.

use super::{Holder, MOST_TRIES, Seen};
use crate::sync::{AtomicU64, Ordering, const_fn, unless_weakened};

/// A lock of 8 bytes, which names its holder.
///
/// Budget, while nobody else comes: one RMW to lock it, without a load before; one RMW to unlock it, after a load. One
/// line.
///
/// ```
/// use daiko_core::robust::{Found, Holder, Lock, Mutex, Unlock};
///
/// let [me, other] = [0, 1].map(|index| Holder::new(index, 1.try_into().unwrap()));
/// let mutex = Mutex::new();
/// assert_eq!(mutex.try_lock(me, |_| false), Lock::Locked(Found::Clean));
/// assert!(matches!(mutex.try_lock(other, |_| false), Lock::Held { by, .. } if by == me));
/// // It is killed. Whoever comes next is told, and nobody else.
/// assert_eq!(mutex.try_lock(other, |who| who == me), Lock::Locked(Found::OwnerDied));
/// mutex.clear_poison();
/// assert_eq!(mutex.unlock(other), Unlock::Quiet);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Mutex(AtomicU64);

/// The word. Zeroed it is free.
///
/// ```text
/// 63        32 31   16 15     2     1          0
/// | generation | index | unused | POISONED | WAITED |
/// ```
///
/// * Without a generation it is free, and nobody is said to wait.
/// * `WAITED`: somebody waits for this holder, who rings when he unlocks.
/// * `POISONED`: somebody who had it died, or gave it up poisoned, and nobody has repaired since what it protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word(u64);

impl Word {
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

    const fn waited(self) -> Word {
        Word(self.0 | Self::WAITED)
    }

    /// Free, with what is known of the past.
    const fn free(poisoned: bool) -> Word {
        Word(if poisoned { Self::POISONED } else { 0 })
    }

    /// After `me` has found it free.
    const fn taken(self, me: Holder) -> Word {
        Word(me.bits() | self.0 & Self::POISONED)
    }

    /// After `me` has found its holder dead. Who waits goes on to be rung for.
    const fn inherited(self, me: Holder) -> Word {
        let poisoned = if cfg!(weaken = "robust-mutex-inherit") { 0 } else { Self::POISONED };
        Word(me.bits() | self.0 & Self::WAITED | poisoned)
    }

    const fn found(self) -> Found {
        if self.is_poisoned() { Found::Poisoned } else { Found::Clean }
    }
}

/// What a new holder learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All who had it have left in order, or it has been repaired since.
    Clean,
    /// The last holder died while he had it. Of each death one learns. Unless he
    /// [clears](Mutex::clear_poison) it, those who come after him find it poisoned.
    OwnerDied,
    /// Somebody died or failed while he had it, and nobody has repaired it since.
    Poisoned,
}

/// What came of a try to lock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The caller has it.
    Locked(Found),
    /// `by` has it, and is not known to be dead. Who waits [says so](Mutex::wait_for) first.
    Held {
        /// The holder, whose death is to be watched for.
        by: Holder,
        /// The word that said so.
        seen: Seen,
    },
    /// It changed under each of many tries. Worth another one.
    Contended,
}

/// What came of an unlock.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// Nobody waits.
    Quiet,
    /// Somebody may wait: the caller rings for all who do, as none of them rings for another.
    Ring,
    /// It was not the caller's: a peer has written to the word. It is free now.
    NotMine,
}

impl Mutex {
    const_fn! {
        /// Free, and clean.
        pub const fn new() -> Self {
            Self(AtomicU64::new(Word::free(false).0))
        }
    }

    /// Takes it if it is free, or if `is_dead` says so of its holder.
    ///
    /// One attachment's threads are one holder: who of them has it is their own matter.
    #[inline]
    pub fn try_lock(&self, me: Holder, is_dead: impl Fn(Holder) -> bool) -> Lock {
        match self.change(Word::free(false), Word::free(false).taken(me)) {
            Ok(()) => Lock::Locked(Found::Clean),
            Err(seen) => self.try_lock_slow(seen, me, is_dead),
        }
    }

    #[cold]
    fn try_lock_slow(&self, mut seen: Word, me: Holder, is_dead: impl Fn(Holder) -> bool) -> Lock {
        for _ in 0..MOST_TRIES {
            let (next, found) = match seen.holder() {
                None => (seen.taken(me), seen.found()),
                Some(by) if !is_dead(by) => return Lock::Held { by, seen: Seen(seen.0) },
                Some(_) => (seen.inherited(me), Found::OwnerDied),
            };
            match self.change(seen, next) {
                Ok(()) => return Lock::Locked(found),
                Err(other) => seen = other,
            }
        }
        Lock::Contended
    }

    fn change(&self, from: Word, to: Word) -> Result<(), Word> {
        // Acquire: pairs with the Release in `leave`. What the dead did is known by their death.
        let acquire = unless_weakened!("robust-mutex-lock", Ordering::Acquire);
        let changed = self.0.compare_exchange(from.0, to.0, acquire, Ordering::Relaxed);
        changed.map(drop).map_err(Word)
    }

    /// Says to the holder that was `seen` that the caller waits: what to wait for the end of. `None` if he
    /// has left, and it is worth another try.
    #[must_use = "if the word has changed already, nobody rings"]
    pub fn wait_for(&self, seen: Seen) -> Option<Seen> {
        let waited = Word(seen.0).waited();
        // Release: whoever is told of it knows where to ring: pairs with the Acquire in `leave`. Exchanged though
        // others may have said so already, as they have not said where this one is to be rung for.
        let release = unless_weakened!("robust-mutex-wait", Ordering::Release);
        let said = self.0.compare_exchange(seen.0, waited.0, release, Ordering::Relaxed);
        said.is_ok().then_some(Seen(waited.0))
    }

    /// Whether the word is another than the one that was `seen`, so that a try to lock is due.
    #[inline]
    pub fn has_changed(&self, seen: Seen) -> bool {
        self.0.load(Ordering::Relaxed) != seen.0
    }

    /// Gives it back, as poisoned as it is.
    #[inline]
    pub fn unlock(&self, me: Holder) -> Unlock {
        // Relaxed: of what this keeps nobody but the holder changes anything.
        let poisoned = Word(self.0.load(Ordering::Relaxed)).is_poisoned();
        self.leave(me, Word::free(poisoned))
    }

    /// Gives it back poisoned.
    pub fn unlock_poisoned(&self, me: Holder) -> Unlock {
        self.leave(me, Word::free(true))
    }

    fn leave(&self, me: Holder, free: Word) -> Unlock {
        // Release: pairs with the Acquire in `change`. Acquire: pairs with the Release in `wait_for`.
        let order = unless_weakened!("robust-mutex-unlock", Ordering::AcqRel);
        let was = Word(self.0.swap(free.0, order));
        match was.holder() {
            Some(holder) if holder == me && was.is_waited() => Unlock::Ring,
            Some(holder) if holder == me => Unlock::Quiet,
            _ => Unlock::NotMine,
        }
    }

    /// Says that what it protects is in order again. For the holder.
    pub fn clear_poison(&self) {
        // Relaxed: those who come after learn of it by the unlock.
        self.0.fetch_and(!Word::POISONED, Ordering::Relaxed);
    }

    /// How one finds it who shares it while it is free; else who has it, and may be dead.
    ///
    /// # Errors
    ///
    /// If somebody has it: who, and the word that said so.
    #[inline]
    pub fn found(&self) -> Result<Found, (Holder, Seen)> {
        // Acquire: pairs with the Release in `leave`.
        let word = Word(self.0.load(Ordering::Acquire));
        word.holder().map_or(Ok(word.found()), |by| Err((by, Seen(word.0))))
    }

    /// Takes it from the dead who was `seen` to have it, for nobody. The caller rings, and has learned of the
    /// death as a new holder would. False if somebody else was faster.
    pub(super) fn bury(&self, seen: Seen) -> bool {
        // Release: who takes it sees what the caller did before. Acquire: as in `change`.
        let (order, free) = (Ordering::AcqRel, Word::free(true));
        self.0.compare_exchange(seen.0, free.0, order, Ordering::Relaxed).is_ok()
    }

    /// Who has it, in the eyes of whoever asks; he may be dead.
    pub fn holder(&self) -> Option<Holder> {
        // Acquire: pairs with the Release in `leave`.
        Word(self.0.load(Ordering::Acquire)).holder()
    }

    /// Whether who comes next would learn that it is poisoned, if its holder lives.
    pub fn is_poisoned(&self) -> bool {
        Word(self.0.load(Ordering::Relaxed)).is_poisoned()
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Mutex>() == 8 && Word::free(false).0 == 0);

impl Default for Mutex {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
impl Mutex {
    /// As a peer may leave it.
    pub(super) fn spoil(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
