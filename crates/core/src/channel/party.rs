//! A waiter at a channel: for that channel alone, or for the first of several.

use crate::claim::{Choice, Claim};

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
        Party { waiter, choice: Some(Choice::new(claim, outcome)) }
    }

    /// Returns true if both are the same wait for the first of several.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        match (self.choice, other.choice) {
            (Some(one), Some(other)) => one.is_beside(other),
            _ => false,
        }
    }

    /// Returns true if nothing has ended the wait. Under the lock of a queue that the party is in.
    pub(super) fn is_open(&self) -> bool {
        // SAFETY: as in `try_claim`.
        self.choice.is_none_or(|choice| unsafe { choice.is_open() })
    }

    /// Ends the wait, unless another channel has. Under the lock of a queue that the party is in.
    pub(super) fn try_claim(&self) -> bool {
        // SAFETY: valid while the party is in a queue, by the contract of `one_of`.
        self.choice.is_none_or(|choice| unsafe { choice.try_claim() })
    }
}
