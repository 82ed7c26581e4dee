//! A claim without the lock of the object.

use std::ptr::NonNull;

use super::{Choice, Claim};
use crate::atomic::{AtomicU32, Ordering, unless_weakened};

/// The object has the ticket, or a claimant that it was given to.
const OUT: u32 = 0;
/// The claimant has come too late, and is done with the ticket.
const BACK: u32 = 1;
/// The waiter waits for that.
const AWAITED: u32 = 2;

/// A waiter for the first of several objects, as one of them knows it. The object takes it for any
/// other waiter; its waker, which may hold no lock, redeems it in place of the wake.
///
/// It lies in the frame of its waiter.
///
/// ```text
/// 0 = out, 1 = back, 2 = awaited
/// ```
///
/// # Examples
///
/// ```
/// use std::ptr::NonNull;
///
/// use daiko_core::claim::{Claim, Redeemed, Ticket};
///
/// let claim = Claim::new();
/// // SAFETY: the claim outlives both tickets.
/// let tickets = [0, 1].map(|outcome| unsafe { Ticket::new("waiter", &claim, outcome) });
/// let [one, other] = tickets.each_ref().map(NonNull::from);
/// // SAFETY: alive, and each is redeemed once.
/// unsafe {
///     assert_eq!(Ticket::redeem(other), Redeemed::Taken("waiter"));
///     assert_eq!(Ticket::redeem(one), Redeemed::TooLate(None), "the waiter was claimed before");
/// }
/// assert_eq!(claim.close(), Some(1));
/// assert!(!tickets[0].recall(), "its claimant is done with it");
/// ```
pub struct Ticket<W> {
    waiter: W,
    choice: Choice,
    state: AtomicU32,
}

/// The end of a ticket, for its claimant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a waiter is to be woken"]
pub enum Redeemed<W> {
    /// The wait was claimed: the waiter takes the permit or set of the object, and is to be
    /// woken.
    Taken(W),
    /// The wait had ended before. The claimant passes the permit or set on. A waiter that waits for
    /// its ticket is to be woken.
    TooLate(Option<W>),
}

impl<W: Copy> Ticket<W> {
    /// Creates a ticket of `waiter`, which learns of this object by `outcome` of `claim`.
    ///
    /// # Safety
    ///
    /// The claim stays alive as long as the ticket.
    pub unsafe fn new(waiter: W, claim: &Claim, outcome: u16) -> Self {
        Ticket { waiter, choice: Choice::new(claim, outcome), state: AtomicU32::new(OUT) }
    }

    /// Claims the wait on behalf of the object. A waiter that it returns is to be woken exactly
    /// once. Afterwards the ticket is not used any more.
    ///
    /// # Safety
    ///
    /// The object has given the ticket out once, to this caller, and was not
    /// [recalled](Self::recall) before.
    pub unsafe fn redeem(this: NonNull<Self>) -> Redeemed<W> {
        // SAFETY: ticket and claim stay until the wake, or until the ticket is back: the contract
        // of `recall`. Both are copied, as no reference to the ticket may last longer.
        let (waiter, choice) = unsafe { ((*this.as_ptr()).waiter, (*this.as_ptr()).choice) };
        // SAFETY: as above.
        if unsafe { choice.try_claim() } {
            return Redeemed::Taken(waiter);
        }
        // Release: pairs with the Acquire in `recall`. From here on the ticket is the waiter's.
        let release = unless_weakened!("claim-back", Ordering::Release);
        // SAFETY: as above; the reference is to an atomic alone.
        let before = unsafe { &(*this.as_ptr()).state }.swap(BACK, release);
        let awaiting = (before == AWAITED).then_some(waiter);
        match awaiting {
            Some(waiter) if cfg!(weaken = "claim-late") => Redeemed::Taken(waiter),
            _ => Redeemed::TooLate(awaiting),
        }
    }

    /// Takes the ticket back from an object that has given it out, after the wait was closed with
    /// another outcome or none. Returns true if the claimant still has it, and wakes the waiter
    /// once; the ticket stays until then. Only for the waiter, which has no other wake to come.
    #[must_use = "otherwise the claimant may use the ticket later"]
    pub fn recall(&self) -> bool {
        if cfg!(weaken = "claim-recall") {
            return false;
        }
        // Acquire: pairs with the Release in `redeem`.
        self.state.swap(AWAITED, Ordering::Acquire) == OUT
    }

    /// Makes loom fail unless the caller may reuse the memory of the ticket.
    #[cfg(all(test, loom))]
    pub(super) fn reclaim(&self) {
        // SAFETY: loom checks that nothing is stored at the same time.
        let _ = unsafe { self.state.unsync_load() };
    }
}
