//! Permits that come back from the dead.

use super::{Holder, Seen};
use crate::sync::{AtomicU64, Ordering, const_fn, unless_weakened};

/// Permits, of 8 bytes, and 8 more for each [`Permit`], which the caller keeps behind it: a zeroed one is free.
///
/// Budget: one RMW to acquire, after a load of each permit that is looked at before; two to give back. Two lines.
///
/// ```
/// use daiko_core::robust::{Acquire, Holder, Permit, Semaphore};
///
/// let [me, other] = [0, 1].map(|index| Holder::new(index, 1.try_into().unwrap()));
/// let (semaphore, permits) = (Semaphore::new(), [const { Permit::new() }; 1]);
/// assert_eq!(semaphore.try_acquire(me, &permits, 0, |_| false), Acquire::Acquired(0));
/// let Acquire::Exhausted(seen) = semaphore.try_acquire(other, &permits, 0, |_| false) else { panic!() };
/// assert!(semaphore.give_back(me, &permits, 0) && semaphore.has_changed(seen));
///
/// assert_eq!(semaphore.try_acquire(me, &permits, 0, |_| false), Acquire::Acquired(0));
/// // It is killed.
/// assert_eq!(semaphore.try_acquire(other, &permits, 0, |who| who == me), Acquire::Acquired(0));
/// assert!(!semaphore.give_back(me, &permits, 0));
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Semaphore {
    /// How often permits have become free. Changed after them, by anyone.
    returns: AtomicU64,
}

/// One permit. What it holds changes by exchanges that name what it held.
///
/// | word | meaning |
/// |---|---|
/// | 0 | free |
/// | without a generation, but not 0 | nobody's, and not free: it is in a message |
/// | a [`Holder`] | his |
#[repr(transparent)]
#[derive(Debug)]
pub struct Permit(AtomicU64);

/// What came of a try to acquire a permit.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// The caller has this one.
    Acquired(usize),
    /// None was free: to be waited for until it [has changed](Semaphore::has_changed).
    Exhausted(Seen),
}

impl Permit {
    const FREE: u64 = 0;
    const AWAY: u64 = 1;

    const_fn! {
        /// Free.
        pub const fn new() -> Self {
            Self(AtomicU64::new(Self::FREE))
        }
    }

    /// Whether it is somebody's, in the eyes of who asks, and whose.
    pub fn holder(&self) -> Option<Holder> {
        Holder::of(self.0.load(Ordering::Relaxed))
    }

    /// Whether it is free, in the eyes of who asks.
    pub fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::FREE
    }

    fn change(&self, from: u64, to: u64) -> bool {
        // Acquire: who has it now sees what was done by who had it before: pairs with the Release here. What the
        // dead did is known by their death.
        let order = unless_weakened!("robust-semaphore-permit", Ordering::AcqRel);
        self.0.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    /// Takes it if it is free, or its holder is dead.
    fn take(&self, me: Holder, is_dead: impl Fn(Holder) -> bool) -> bool {
        // Relaxed: the exchange names what was seen.
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

impl Semaphore {
    const_fn! {
        /// Nobody has given anything back.
        pub const fn new() -> Self {
            Self { returns: AtomicU64::new(0) }
        }
    }

    /// Acquires a permit that is free or a dead one's: the first, from `first` on and round. It is best where the caller
    /// has found one before.
    pub fn try_acquire(
        &self,
        me: Holder,
        permits: &[Permit],
        first: usize,
        is_dead: impl Fn(Holder) -> bool,
    ) -> Acquire {
        // Before the look. Acquire: what became free before is found free: pairs with the Release in `returned`.
        let seen = self.returns.load(unless_weakened!("robust-semaphore-look", Ordering::Acquire));
        let first = first.min(permits.len());
        let mut round = (first..permits.len()).chain(0..first);
        let found = round.find(|&permit| permits[permit].take(me, &is_dead));
        found.map_or(Acquire::Exhausted(Seen(seen)), Acquire::Acquired)
    }

    /// Whether permits have become free since that was `seen`.
    #[inline]
    pub fn has_changed(&self, seen: Seen) -> bool {
        self.returns.load(Ordering::Relaxed) != seen.0
    }

    fn returned(&self) {
        // Release: pairs with the Acquire in `try_acquire`.
        self.returns.fetch_add(1, Ordering::Release);
    }

    fn change(&self, permits: &[Permit], permit: usize, from: u64, to: u64) -> bool {
        permits.get(permit).is_some_and(|permit| permit.change(from, to))
    }

    /// Gives a permit back; the caller then rings. False if it is not the caller's.
    #[must_use = "a peer may have taken it"]
    pub fn give_back(&self, me: Holder, permits: &[Permit], permit: usize) -> bool {
        let mine = self.change(permits, permit, me.bits(), Permit::FREE);
        if mine {
            self.returned();
        }
        mine
    }

    /// Makes a permit another's, who learns of it otherwise. If he dies, it comes back from him; if he turns out to
    /// have been dead before, the caller [sweeps](Self::sweep). False if it is not the caller's.
    #[must_use = "a peer may have taken it"]
    pub fn hand_over(&self, me: Holder, permits: &[Permit], permit: usize, to: Holder) -> bool {
        self.change(permits, permit, me.bits(), to.bits())
    }

    /// Makes a permit nobody's, which goes to an unknown with a message. If that is lost the permit is: no death brings
    /// it back. False if it is not the caller's.
    #[must_use = "a peer may have taken it"]
    pub fn forget(&self, me: Holder, permits: &[Permit], permit: usize) -> bool {
        self.change(permits, permit, me.bits(), Permit::AWAY)
    }

    /// Makes a permit the caller's that somebody [forgot](Self::forget). False if it is another's, or free, or none.
    #[must_use = "a peer may have named one that is another's"]
    pub fn adopt(&self, me: Holder, permits: &[Permit], permit: usize) -> bool {
        self.change(permits, permit, Permit::AWAY, me.bits())
    }

    /// Gives a permit back that somebody [forgot](Self::forget); the caller then rings. False as in [`adopt`](Self::adopt).
    #[must_use = "a peer may have named one that is another's"]
    pub fn add(&self, permits: &[Permit], permit: usize) -> bool {
        let was_away = self.change(permits, permit, Permit::AWAY, Permit::FREE);
        if was_away {
            self.returned();
        }
        was_away
    }

    /// Gives back what the dead have left; the caller then rings. By anyone who waits and learns of the death, as often as
    /// may be.
    pub fn sweep(&self, permits: &[Permit], dead: Holder) {
        permits.iter().for_each(|permit| permit.free(dead));
        // Though there was none: he may have died after one was free, and before this.
        self.returned();
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Semaphore>() == 8 && size_of::<Permit>() == 8);

impl Default for Semaphore {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for Permit {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
impl Permit {
    /// As a peer may leave it.
    pub(super) fn spoil(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
