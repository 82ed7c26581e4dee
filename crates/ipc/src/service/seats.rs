//! The servers of a service.
//!
//! A server has a seat as long as it serves. Its number is in the mark of each call that the server
//! has in hand, which was stored after the seat was taken. A seat whose holder has died is taken
//! anew after all calls that were taken from it are ended. So a client that finds its call taken
//! from a seat without a live holder knows that no process has the call in hand.

use daiko_core::call::Ticket;
use daiko_core::robust::Holder;

use super::{ServeError, Service};
use crate::atomic::Ordering;

/// Largest number of servers of a service at a time.
pub(crate) const MAX_SERVERS: usize = 16;

/// A seat: its server, and whether that shares the service with others. 0: free.
///
/// ```text
/// 63    16 15      1      0
/// | holder | unused | SHARED |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatWord(u64);

impl SeatWord {
    const SHARED: u64 = 1;

    fn new(holder: Holder, is_shared: bool) -> Self {
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
    word: SeatWord,
}

impl Service {
    /// Returns true if a process serves it now.
    pub fn is_served(&self) -> bool {
        self.server_count() > 0
    }

    /// Returns how many servers it has now: more than one only if they
    /// [share](super::ServerBuilder::shared) it.
    pub fn server_count(&self) -> usize {
        let seats = (0..MAX_SERVERS as u32).filter_map(|number| self.seated(number));
        // Servers that have died unnoticed are not counted.
        seats
            .inspect(|server| self.segment().watch(server.holder))
            .filter(|server| !self.segment().is_gone(server.holder))
            .count()
    }

    /// Returns a live server, if there is one: the first.
    #[inline]
    pub(super) fn server(&self) -> Option<Seated> {
        self.seated(0).or_else(|| self.server_behind_first())
    }

    #[cold]
    fn server_behind_first(&self) -> Option<Seated> {
        (1..MAX_SERVERS as u32).find_map(|number| self.seated(number))
    }

    /// Returns the live server in seat `number`, if there is one.
    #[inline]
    fn seated(&self, number: u32) -> Option<Seated> {
        // Acquire: pairs with the Release in `take_seat`: calls of an earlier server in this seat
        // are ended.
        let word = self.words().seats.get(number as usize)?.load(Ordering::Acquire);
        let holder = Holder::of(word)?;
        (!self.segment().is_gone(holder)).then_some(Seated { word: SeatWord(word), holder })
    }

    /// Returns true if a live server has the call in slot `at` in hand, or may take it.
    pub(super) fn may_reply(&self, at: u32, ticket: Ticket) -> bool {
        match self.mark(at).server_of(ticket) {
            Some(number) => self.seated(number).is_some(),
            None => self.server().is_some(),
        }
    }

    /// Ends the call in slot `at` if the server that has it in hand is gone. Returns true if it
    /// was.
    pub(super) fn end_of_server(&self, at: u32, ticket: Ticket) -> bool {
        // The mark comes first: the server that it names has had its seat before.
        let number = self.mark(at).server_of(ticket);
        let is_gone = number.is_some_and(|number| self.seated(number).is_none());
        if is_gone {
            self.slot(at).server_has_died(ticket);
        }
        is_gone
    }

    /// Takes a seat for this process, and ends the calls that a dead server had taken from it.
    pub(super) fn take_seat(&self, is_shared: bool) -> Result<OwnSeat, ServeError> {
        let segment = self.segment();
        for number in 0..MAX_SERVERS as u32 {
            self.seated(number).map(|server| segment.has_gone(server.holder));
        }
        let seat = segment.locked(|_lock| Ok(self.take_seat_locked(is_shared)));
        let seat = seat.map_err(ServeError::Segment)??;
        // Some of the calls may have been of clients that have died or left. Waiters for a server
        // look as well.
        self.announce_free_slot();
        segment.check_whole().map_err(ServeError::Segment)?;
        Ok(seat)
    }

    fn take_seat_locked(&self, is_shared: bool) -> Result<OwnSeat, ServeError> {
        let mut seats = (0..MAX_SERVERS as u32).map(|number| self.seated(number));
        if seats.clone().flatten().any(|server| !(is_shared && server.word.is_shared())) {
            return Err(ServeError::Served);
        }
        let number = seats.position(|server| server.is_none()).ok_or(ServeError::Full)? as u32;
        for at in 0..self.shape().slots {
            let (slot, mark) = (self.slot(at), self.mark(at));
            if let Some((ticket, _)) = slot.in_hand(mark).filter(|&(_, server)| server == number) {
                slot.server_has_died(ticket);
                self.ring_client(slot);
            }
        }
        let word = SeatWord::new(self.segment().me(), is_shared);
        // Release: pairs with the Acquire in `seated`.
        self.words().seats[number as usize].store(word.0, Ordering::Release);
        Ok(OwnSeat { number, word })
    }

    /// Leaves the seat: no call that was taken from it is in hand any more.
    pub(super) fn leave_seat(&self, seat: &OwnSeat) {
        let word = &self.words().seats[seat.number as usize];
        // Release: pairs with the Acquire in `seated`.
        let (left, failed) = (Ordering::Release, Ordering::Relaxed);
        let _ = word.compare_exchange(seat.word.0, 0, left, failed);
        // A client that has posted a request meanwhile looks again, perhaps to find that no process
        // serves.
        (0..self.shape().slots).for_each(|at| self.ring_client(self.slot(at)));
        self.announce_free_slot();
    }
}
