//! Waits on several objects: the word that decides which of them ends the wait.
//!
//! README.md beside this file has the protocol.

mod ticket;

pub use ticket::{Redeemed, Ticket};

use std::ptr::NonNull;

use crate::atomic::{AtomicU32, Ordering, const_fn, unless_weakened};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

const OPEN: u32 = 0;
const CLOSED: u32 = 1;
const CLAIMED: u32 = 2;

/// The outcome of a wait on several objects; it lies in the frame of its waiter.
///
/// ```text
/// 0 = open, 1 = closed, 2 + i = claimed with outcome i
/// ```
///
/// # Examples
///
/// ```
/// use daiko_core::claim::Claim;
///
/// let claim = Claim::new();
/// assert!(claim.try_claim(3));
/// assert!(!claim.try_claim(4));
/// assert_eq!(claim.close(), Some(3));
/// assert!(!claim.try_claim(5));
/// ```
#[derive(Debug)]
pub struct Claim(AtomicU32);

impl Claim {
    const_fn! {
        /// Creates the word of an open wait.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self(AtomicU32::new(OPEN))
        }
    }

    /// Ends the wait with `outcome`. Returns true for one caller, which then wakes the waiter.
    #[must_use = "the winner wakes the waiter, a loser serves the next in line"]
    pub fn try_claim(&self, outcome: u16) -> bool {
        let claimed = CLAIMED + u32::from(outcome);
        if cfg!(weaken = "claim-once") {
            self.0.store(claimed, Ordering::Release);
            return true;
        }
        // Release: pairs with the Acquire in `close`.
        let release = unless_weakened!("claim-publish", Ordering::Release);
        self.0.compare_exchange(OPEN, claimed, release, Ordering::Relaxed).is_ok()
    }

    /// Returns true if the wait is open. The answer may be out of date at once.
    pub fn is_open(&self) -> bool {
        // Relaxed: a caller that acts on it goes on to claim.
        self.0.load(Ordering::Relaxed) == OPEN
    }

    /// Closes the wait. Returns the outcome if it was claimed; the claimant wakes or woke the
    /// waiter once. Returns `None` if there was and will be no wake. Only for the waiter.
    #[must_use = "a wake that was claimed and is not wanted is passed on"]
    pub fn close(&self) -> Option<u16> {
        // Acquire: pairs with the Release in `try_claim`.
        self.0.swap(CLOSED, Ordering::Acquire).checked_sub(CLAIMED).map(|outcome| outcome as u16)
    }

    /// Makes loom fail unless the caller may reuse the memory of the word.
    #[cfg(all(test, loom))]
    fn reclaim(&self) {
        // SAFETY: loom checks that nothing is stored at the same time.
        let _ = unsafe { self.0.unsync_load() };
    }
}

/// One of the objects that a wait is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    claim: NonNull<Claim>,
    outcome: u16,
}

// SAFETY: the claim is atomic, and the functions that use it require that it is valid.
unsafe impl Send for Choice {}

impl Choice {
    pub(crate) fn new(claim: &Claim, outcome: u16) -> Self {
        Choice { claim: NonNull::from(claim), outcome }
    }

    /// Returns true if both are of the same wait.
    pub(crate) fn is_beside(&self, other: Self) -> bool {
        self.claim == other.claim
    }

    /// See [`Claim::is_open`].
    ///
    /// # Safety
    ///
    /// The claim is alive.
    pub(crate) unsafe fn is_open(&self) -> bool {
        // SAFETY: by this function's contract.
        unsafe { self.claim.as_ref() }.is_open()
    }

    /// See [`Claim::try_claim`].
    ///
    /// # Safety
    ///
    /// The claim is alive.
    pub(crate) unsafe fn try_claim(&self) -> bool {
        // SAFETY: by this function's contract.
        unsafe { self.claim.as_ref() }.try_claim(self.outcome)
    }
}
