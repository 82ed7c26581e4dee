//! The servers of a service.
//!
//! A server has a seat as long as it serves. Its number is in the mark of each call that the server
//! has in hand, which was stored after the seat was taken. A seat of a dead holder is taken
//! anew after all calls that were taken from it are ended. So a client that finds its call taken
//! from a seat without a live holder knows that no process has the call in hand.

use daiko_core::robust::Holder;

/// Largest number of servers of a service at a time.
pub(crate) const MAX_SERVERS: usize = 16;

/// A seat: its server, and whether that shares the service. 0: free.
///
/// ```text
/// 63    16 15      1      0
/// | holder | unused | SHARED |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatWord(pub(super) u64);

impl SeatWord {
    const SHARED: u64 = 1;

    pub(super) fn new(holder: Holder, is_shared: bool) -> Self {
        SeatWord(holder.bits() | if is_shared { Self::SHARED } else { 0 })
    }

    pub(super) fn is_shared(self) -> bool {
        self.0 & Self::SHARED != 0
    }
}

/// A server that was there at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seated {
    pub(super) word: SeatWord,
    pub(super) holder: Holder,
}

/// The seat of a server of this process.
#[derive(Debug)]
pub(super) struct OwnSeat {
    pub(super) number: u32,
    pub(super) word: SeatWord,
}
