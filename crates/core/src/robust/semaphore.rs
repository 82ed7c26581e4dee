//! Permits that can be taken over from dead holders.

use super::{Holder, SeenWord};
use crate::atomic::{AtomicU64, Ordering, const_fn, unless_weakened};

/// A semaphore of 8 bytes, and 8 more for each [`RobustPermit`], which the caller keeps behind it:
/// a zeroed one is free.
///
/// Budget: one RMW to acquire, after a load of each permit that is looked at before; two to give
/// back. Two lines.
///
/// ```
/// use daiko_core::robust::{Acquire, Holder, RobustPermit, RobustSemaphore};
///
/// let [me, other] = [0, 1].map(|index| Holder::new(index, 1.try_into().unwrap()));
/// let (semaphore, permits) = (RobustSemaphore::new(), [const { RobustPermit::new() }; 1]);
/// assert_eq!(semaphore.try_acquire(me, &permits, 0, |_| false), Acquire::Acquired(0));
/// let Acquire::Exhausted(seen) = semaphore.try_acquire(other, &permits, 0, |_| false) else {
///     panic!()
/// };
/// assert!(semaphore.give_back(me, &permits, 0) && semaphore.has_changed(seen));
///
/// assert_eq!(semaphore.try_acquire(me, &permits, 0, |_| false), Acquire::Acquired(0));
/// // The holder is killed.
/// assert_eq!(semaphore.try_acquire(other, &permits, 0, |who| who == me), Acquire::Acquired(0));
/// assert!(!semaphore.give_back(me, &permits, 0));
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RobustSemaphore {
    /// Number of times that permits have become free. Changed after them, by any process.
    returns: AtomicU64,
}

/// One permit. It changes by exchanges that name its previous state.
///
/// | word | meaning |
/// |---|---|
/// | 0 | free |
/// | without a generation, but not 0 | away: without a holder, and not free; it is in a message |
/// | a [`Holder`] | held by it |
#[repr(transparent)]
#[derive(Debug)]
pub struct RobustPermit(AtomicU64);

/// The outcome of a try to acquire a permit.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// The caller has this permit.
    Acquired(usize),
    /// No permit was free: wait until the semaphore [has changed](RobustSemaphore::has_changed).
    Exhausted(SeenWord),
}

impl RobustPermit {
    const FREE: u64 = 0;
    const AWAY: u64 = 1;

    const_fn! {
        /// Creates a free permit.
        pub const fn new() -> Self {
            Self(AtomicU64::new(Self::FREE))
        }
    }

    /// Returns the holder, if there is one. The answer may be out of date at once.
    pub fn holder(&self) -> Option<Holder> {
        Holder::of(self.0.load(Ordering::Relaxed))
    }

    /// Returns true if it is free. The answer may be out of date at once.
    pub fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::FREE
    }

    fn change(&self, from: u64, to: u64) -> bool {
        // Acquire: pairs with the Release here, of earlier holders; the new holder sees their
        // writes. The writes of a dead holder are seen through the report of its death.
        let order = unless_weakened!("robust-semaphore-permit", Ordering::AcqRel);
        self.0.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    /// Takes the permit if it is free, or its holder is dead.
    fn take(&self, me: Holder, is_dead: impl Fn(Holder) -> bool) -> bool {
        // Relaxed: the exchange names the word that was seen.
        let seen = self.0.load(Ordering::Relaxed);
        Holder::of(seen).map_or(seen == Self::FREE, is_dead) && self.change(seen, me.bits())
    }

    fn free(&self, dead: Holder) {
        if cfg!(weaken = "robust-semaphore-sweep") {
            self.0.store(Self::FREE, Ordering::Release);
        } else if self.holder() == Some(dead) {
            self.change(dead.bits(), Self::FREE);
        }
    }
}

impl RobustSemaphore {
    const_fn! {
        /// Creates a semaphore to which no permit has been given back.
        pub const fn new() -> Self {
            Self { returns: AtomicU64::new(0) }
        }
    }

    /// Acquires the first permit, from `first` on and round, that is free or has a dead holder. A
    /// good `first` is where the caller has found a permit before.
    pub fn try_acquire(
        &self,
        me: Holder,
        permits: &[RobustPermit],
        first: usize,
        is_dead: impl Fn(Holder) -> bool,
    ) -> Acquire {
        // Before the look. Acquire: pairs with the Release in `returned`, so that permits that
        // became free before are found free.
        let seen = self.returns.load(unless_weakened!("robust-semaphore-look", Ordering::Acquire));
        let first = first.min(permits.len());
        let mut round = (first..permits.len()).chain(0..first);
        let found = round.find(|&permit| permits[permit].take(me, &is_dead));
        found.map_or(Acquire::Exhausted(SeenWord(seen)), Acquire::Acquired)
    }

    /// Returns true if permits have become free since the count that was `seen`.
    #[inline]
    pub fn has_changed(&self, seen: SeenWord) -> bool {
        self.returns.load(Ordering::Relaxed) != seen.0
    }

    fn returned(&self) {
        // Release: pairs with the Acquire in `try_acquire`.
        self.returns.fetch_add(1, Ordering::Release);
    }

    fn change(&self, permits: &[RobustPermit], permit: usize, from: u64, to: u64) -> bool {
        permits.get(permit).is_some_and(|permit| permit.change(from, to))
    }

    /// Gives a permit back; the caller then rings. Returns false if it is not the caller's.
    #[must_use = "a peer may have taken it"]
    pub fn give_back(&self, me: Holder, permits: &[RobustPermit], permit: usize) -> bool {
        let mine = self.change(permits, permit, me.bits(), RobustPermit::FREE);
        if mine {
            self.returned();
        }
        mine
    }

    /// Hands a permit over to another attachment, which learns of it otherwise. If `to` dies, the
    /// permit comes back from it; if `to` turns out to have been dead before, the caller
    /// [sweeps](Self::sweep). Returns false if the permit is not the caller's.
    #[must_use = "a peer may have taken it"]
    pub fn hand_over(
        &self,
        me: Holder,
        permits: &[RobustPermit],
        permit: usize,
        to: Holder,
    ) -> bool {
        self.change(permits, permit, me.bits(), to.bits())
    }

    /// Makes a permit away, which goes to an unknown receiver with a message. If the message is
    /// lost, so is the permit: no death brings it back. Returns false if it is not the caller's.
    #[must_use = "a peer may have taken it"]
    pub fn forget(&self, me: Holder, permits: &[RobustPermit], permit: usize) -> bool {
        self.change(permits, permit, me.bits(), RobustPermit::AWAY)
    }

    /// Makes the caller the holder of a [forgotten](Self::forget) permit. Returns false if it has a
    /// holder, or is free, or does not exist.
    #[must_use = "a peer may have named the permit of another process"]
    pub fn adopt(&self, me: Holder, permits: &[RobustPermit], permit: usize) -> bool {
        self.change(permits, permit, RobustPermit::AWAY, me.bits())
    }

    /// Gives a [forgotten](Self::forget) permit back; the caller then rings. Returns false as
    /// [`adopt`](Self::adopt) does.
    #[must_use = "a peer may have named the permit of another process"]
    pub fn add(&self, permits: &[RobustPermit], permit: usize) -> bool {
        let was_away = self.change(permits, permit, RobustPermit::AWAY, RobustPermit::FREE);
        if was_away {
            self.returned();
        }
        was_away
    }

    /// Gives the permits of a dead holder back; the caller then rings. Any waiter that learns of
    /// the death may call it, any number of times.
    pub fn sweep(&self, permits: &[RobustPermit], dead: Holder) {
        permits.iter().for_each(|permit| permit.free(dead));
        // Even if there was none: the holder may have died between freeing a permit and this step.
        self.returned();
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<RobustSemaphore>() == 8 && size_of::<RobustPermit>() == 8);

impl Default for RobustSemaphore {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for RobustPermit {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl RobustPermit {
    /// Stores any word, as a peer may.
    pub(super) fn spoil(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
