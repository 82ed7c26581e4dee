//! The ends of a channel as they come and go, of one receiver or of many.

use daiko_core::doorbell::Listeners;
use daiko_core::robust::{Holder, Lane, Seat};

use super::placed::stand_up;
use crate::Segment;
use crate::atomic::{AtomicU32, Ordering};

/// Words that change as ends come and go. Read at each message.
#[repr(C)]
pub(super) struct Ends {
    /// Rung by a sender that sends, or leaves: for the receivers.
    pub(super) receiving: Listeners,
    /// Rung by a receiver that receives, or leaves: for the senders.
    pub(super) sending: Listeners,
    /// Set once there was a sender, and a receiver. Stored by them, once they have their seats.
    pub(super) had_sender: AtomicU32,
    pub(super) had_receiver: AtomicU32,
    /// Number of seats that were left. Raised by their holders, before they ring.
    left: AtomicU32,
}

impl Ends {
    /// Leaves `seat`, and makes the waiters on the other side look.
    pub(super) fn stand_up(&self, segment: &Segment, seat: &Seat, others: &Listeners) {
        if stand_up(segment, seat) {
            self.left.fetch_add(1, Ordering::Release);
            segment.ring(others, None);
        }
    }

    /// Returns how many seats were left.
    #[inline]
    pub(super) fn left(&self) -> u32 {
        // Acquire: pairs with the Release in `stand_up`.
        self.left.load(Ordering::Acquire)
    }

    /// Returns true if there were senders, and all are gone.
    pub(super) fn is_deserted(&self, segment: &Segment, lanes: &[Lane]) -> bool {
        self.had_sender.load(Ordering::Acquire) != 0
            && !lanes.iter().any(|lane| lives(segment, lane.sender().holder()))
    }
}

/// Returns true if there is a holder, and it is not known to have died.
#[inline]
pub(super) fn lives(segment: &Segment, holder: Option<Holder>) -> bool {
    holder.is_some_and(|holder| !segment.is_gone(holder))
}
