//! The word that tells which calls wait.

use super::SlotIndex;

/// The calls that wait for a slot. Stored under the queue lock, loaded by any caller.
///
/// ```text
/// 31         30..29   28..23    22       0
/// | FOLLOWED | leader | index | bell + 1 |
///
/// FOLLOWED: a call is in the queue
/// leader:   0 = none, 1 = leading, 2 = granted
/// index:    the slot that the leader was granted
/// bell:     the doorbell that the leader sleeps on; 0 here: none
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitingCalls(u32);

/// The leader of the waiting calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leader {
    /// No call leads.
    None,
    /// A call waits for a slot, the client's own or another one of the service.
    Leading,
    /// It was granted this slot, and has yet to resign.
    Granted(SlotIndex),
}

impl WaitingCalls {
    pub(super) const NONE: Self = WaitingCalls(0);

    const FOLLOWED: u32 = 1 << 31;
    const LEADING: u32 = 1 << 29;
    const GRANTED: u32 = 2 << 29;
    const LEADER: u32 = 3 << 29;
    const INDEX: u32 = 23;
    const BELL: u32 = (1 << Self::INDEX) - 1;

    pub(super) const fn from_bits(bits: u32) -> Self {
        WaitingCalls(bits)
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// Whether a call waits that was not granted a slot yet.
    #[inline]
    pub(super) const fn expect_slot(self) -> bool {
        self.0 & (Self::FOLLOWED | Self::LEADING) != 0
    }

    pub(super) fn leader(self) -> Leader {
        match self.0 & Self::LEADER {
            0 => Leader::None,
            Self::LEADING => Leader::Leading,
            _ => Leader::Granted(SlotIndex(self.0 >> Self::INDEX & SlotIndex::LAST)),
        }
    }

    /// Returns the doorbell of the leader.
    pub(super) fn bell(self) -> Option<u32> {
        (self.0 & Self::BELL).checked_sub(1)
    }

    pub(super) fn with_followers(self, any: bool) -> Self {
        WaitingCalls(if any { self.0 | Self::FOLLOWED } else { self.0 & !Self::FOLLOWED })
    }

    /// Returns the word with `leader`, which has registered no doorbell yet.
    pub(super) fn led_by(self, leader: Leader) -> Self {
        let leader = match leader {
            Leader::None => 0,
            Leader::Leading => Self::LEADING,
            Leader::Granted(index) => Self::GRANTED | index.0 << Self::INDEX,
        };
        WaitingCalls(self.0 & Self::FOLLOWED | leader)
    }

    /// # Panics
    ///
    /// If the number does not fit.
    pub(super) fn with_bell(self, bell: Option<u32>) -> Self {
        let bell = bell.map_or(0, |bell| bell + 1);
        assert!(bell <= Self::BELL, "no such doorbell");
        WaitingCalls(self.0 & !Self::BELL | bell)
    }
}
