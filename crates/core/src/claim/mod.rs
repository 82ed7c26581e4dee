//! Waits on several objects: which of them ends the wait.
//!
//! README.md beside this file has the protocol.

use crate::sync::{AtomicU64, Ordering, unless_weakened};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// The number of one wait of one fiber. Its registrations carry it, and no later wait has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u64);

/// What the claim word says.
///
/// ```text
/// 63          16 15      0
/// | generation  | outcome |   outcome: 0 = closed, 1 = open, 2 + i = claimed with i
/// ```
///
/// 48 bits of generation outlast a year of waits of 100 ns each.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

impl Word {
    const OUTCOME_BITS: u32 = 16;
    const CLOSED: u64 = 0;
    const OPEN: u64 = 1;
    const CLAIMED: u64 = 2;

    const fn new(generation: Generation, outcome: u64) -> Self {
        Self(generation.0 << Self::OUTCOME_BITS | outcome)
    }

    const fn generation(self) -> Generation {
        Generation(self.0 >> Self::OUTCOME_BITS)
    }

    const fn outcome(self) -> Option<u16> {
        let low = self.0 & ((1 << Self::OUTCOME_BITS) - 1);
        if low < Self::CLAIMED { None } else { Some((low - Self::CLAIMED) as u16) }
    }
}

/// The greatest outcome of a claim, and so one less than the most objects to wait on at a time.
pub const MAX_OUTCOME: u16 = u16::MAX - 2;

/// One fiber's word for waits on several objects.
///
/// # Examples
///
/// ```
/// use daiko_core::claim::Claim;
///
/// let claim = Claim::new();
/// let wait = claim.begin();
/// assert!(claim.try_claim(wait, 3));
/// assert!(!claim.try_claim(wait, 4));
/// assert_eq!(claim.finish(), Some(3));
/// assert!(!claim.try_claim(wait, 5));
/// ```
#[derive(Debug)]
pub struct Claim(AtomicU64);

impl Claim {
    /// A word of a fiber that does not wait.
    #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
    pub fn new() -> Self {
        Self(AtomicU64::new(Word::new(Generation(0), Word::CLOSED).0))
    }

    /// Opens a wait. Only the waiter, while no wait is open.
    ///
    /// Registering the result with an object publishes it, by that object's queue lock.
    pub fn begin(&self) -> Generation {
        // Relaxed: only stale claimants touch a closed word, and they change nothing.
        let old = Word(self.0.load(Ordering::Relaxed));
        debug_assert_eq!(old.0 & 0xffff, Word::CLOSED, "one wait at a time");
        let generation = Generation(old.generation().0 + 1);
        self.0.store(Word::new(generation, Word::OPEN).0, Ordering::Relaxed);
        generation
    }

    /// Ends the wait `generation` with `outcome`: true for one caller, who then wakes the waiter.
    ///
    /// # Panics
    ///
    /// If `outcome` exceeds [`MAX_OUTCOME`].
    #[must_use = "the winner wakes the waiter, a loser serves the next in line"]
    pub fn try_claim(&self, generation: Generation, outcome: u16) -> bool {
        assert!(outcome <= MAX_OUTCOME, "an outcome is at most {MAX_OUTCOME}");
        let generation = if cfg!(weaken = "claim-generation") {
            Word(self.0.load(Ordering::Relaxed)).generation()
        } else {
            generation
        };
        let open = Word::new(generation, Word::OPEN).0;
        let claimed = Word::new(generation, Word::CLAIMED + u64::from(outcome)).0;
        // Release pairs with the Acquire in `finish` and `outcome`.
        let release = unless_weakened!("claim-publish", Ordering::Release);
        self.0.compare_exchange(open, claimed, release, Ordering::Relaxed).is_ok()
    }

    /// How the open wait was ended, if it was.
    pub fn outcome(&self) -> Option<u16> {
        // Acquire pairs with the Release in `try_claim`.
        Word(self.0.load(Ordering::Acquire)).outcome()
    }

    /// Closes the wait: the outcome if somebody claimed it, who then wakes or woke the waiter once;
    /// `None` if nobody did, nor will. Only the waiter, or who acts for it (its timeout or cancel).
    #[must_use = "a wake that was claimed and is not wanted is passed on"]
    pub fn finish(&self) -> Option<u16> {
        // Relaxed: only `begin` changes the generation, on this side.
        let generation = Word(self.0.load(Ordering::Relaxed)).generation();
        // Acquire pairs with the Release in `try_claim`.
        let closed = Word::new(generation, Word::CLOSED).0;
        Word(self.0.swap(closed, Ordering::Acquire)).outcome()
    }
}
