//! A waiter at a channel: for that channel alone, or for the first of several.

use std::ptr::NonNull;

use crate::claim::Claim;

/// The operation that a party waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Sending a value.
    Send,
    /// Receiving one.
    Receive,
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Send => Side::Receive,
            Side::Receive => Side::Send,
        }
    }
}

/// A waiter at a channel.
#[derive(Clone, Copy, Debug)]
pub struct Party<W> {
    /// The waiter to wake.
    pub waiter: W,
    choice: Option<Choice>,
}

/// One of several channels at which a party waits.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    claim: NonNull<Claim>,
    outcome: u16,
}

// SAFETY: the claim is atomic, and valid while the party is in a queue: the contract of `one_of`.
unsafe impl<W: Send> Send for Party<W> {}

impl<W> Party<W> {
    /// Creates a party that waits for this channel alone.
    pub fn alone(waiter: W) -> Self {
        Party { waiter, choice: None }
    }

    /// Creates a party that waits for this channel among several, and learns of it by `outcome`.
    ///
    /// # Safety
    ///
    /// The claim stays valid while the party is in a queue.
    pub unsafe fn one_of(waiter: W, claim: &Claim, outcome: u16) -> Self {
        Party { waiter, choice: Some(Choice { claim: NonNull::from(claim), outcome }) }
    }

    /// Returns true if both are the same wait for the first of several.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        match (self.choice, other.choice) {
            (Some(one), Some(other)) => one.claim == other.claim,
            _ => false,
        }
    }

    /// Returns true if nothing has ended the wait. Under the lock of a queue that the party is in.
    pub(super) fn is_open(&self) -> bool {
        // SAFETY: as in `try_claim`.
        self.choice.is_none_or(|choice| unsafe { choice.claim.as_ref() }.is_open())
    }

    /// Ends the wait, unless another channel has. Under the lock of a queue that the party is in.
    pub(super) fn try_claim(&self) -> bool {
        // SAFETY: valid while the party is in a queue, by the contract of `one_of`.
        self.choice.is_none_or(|choice| unsafe { choice.claim.as_ref() }.try_claim(choice.outcome))
    }
}
