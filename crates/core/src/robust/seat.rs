//! A place that one attachment has at a time.

use super::{Holder, MOST_TRIES, SeenWord};
use crate::atomic::{AtomicU64, Ordering, const_fn, unless_weakened};

/// A place of 8 bytes that is free or names a [`Holder`]. If the holder dies, another attachment
/// takes it over.
///
/// Unlike a mutex it is not waited for, and an attachment that takes it over from a dead one finds
/// nothing half done.
///
/// Budget: one RMW to take it, one to leave it.
///
/// ```
/// use daiko_core::robust::{Holder, Seat, Take};
///
/// let [me, peer] = [1, 2].map(|generation: u32| Holder::new(0, generation.try_into().unwrap()));
/// let seat = Seat::new();
/// assert_eq!(seat.take(me, |_| false), Take::Taken { from: None });
/// assert_eq!(seat.take(peer, |who| who == me), Take::Taken { from: Some(me) });
/// assert!(!seat.leave(me) && seat.leave(peer));
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Seat(AtomicU64);

/// The outcome of a try to take a seat.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The caller has it.
    Taken {
        /// The dead holder from which it was taken over.
        from: Option<Holder>,
    },
    /// `by` has it, and is not known to be dead.
    Held {
        /// The holder.
        by: Holder,
        /// The word that said so.
        seen: SeenWord,
    },
    /// The word changed under each of many tries. Another try is worth while.
    Contended,
}

impl Seat {
    const_fn! {
        /// Creates a free seat.
        pub const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Takes the seat if it is free, or if `is_dead` says so of its holder.
    #[inline]
    pub fn take(&self, me: Holder, is_dead: impl Fn(Holder) -> bool) -> Take {
        let mut seen = 0;
        for _ in 0..MOST_TRIES {
            let from = Holder::of(seen);
            if let Some(by) = from.filter(|&by| !is_dead(by)) {
                return Take::Held { by, seen: SeenWord(seen) };
            }
            match self.change(seen, me.bits()) {
                Ok(()) => return Take::Taken { from },
                Err(other) => seen = other,
            }
        }
        Take::Contended
    }

    /// Gives the seat up. Returns false if it is not the caller's: a peer has written to it.
    #[inline]
    #[must_use = "another process may have it"]
    pub fn leave(&self, me: Holder) -> bool {
        self.change(me.bits(), 0).is_ok()
    }

    fn change(&self, from: u64, to: u64) -> Result<(), u64> {
        // Acquire: pairs with the Release here, of earlier holders that left; the new holder sees
        // their writes. The writes of a dead holder are seen through the report of its death.
        let order = unless_weakened!("robust-seat", Ordering::AcqRel);
        self.0.compare_exchange(from, to, order, Ordering::Relaxed).map(drop)
    }

    /// Returns the holder, which may be dead. The answer may be out of date at once.
    pub fn holder(&self) -> Option<Holder> {
        // Acquire: pairs with the Release in `change`.
        Holder::of(self.0.load(Ordering::Acquire))
    }

    /// Returns true if the word differs from the word that was `seen`.
    pub fn has_changed(&self, seen: SeenWord) -> bool {
        self.0.load(Ordering::Relaxed) != seen.0
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Seat>() == 8);

impl Default for Seat {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl Seat {
    /// Stores any word, as a peer may.
    pub(super) fn spoil(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
