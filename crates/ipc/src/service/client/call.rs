//! One call in a slot of a client: its post, its wait, its end.

use std::time::Duration;

use crate::Bytes;
use bytemuck::AnyBitPattern;
use daiko_core::call::{CallSlot, Left, Progress, Ticket};
use daiko_core::slots::SlotIndex;

use super::super::super::wait::{self, Membership, NotifiedBy};
use super::super::CallError;
use super::super::seats::Seated;
use super::super::server::code;
use super::{Client, WAIT_KIND, deadline_after};
use daiko_rt::Deadline;

/// A slot of the client for one call; free again when this is dropped.
///
/// It is small, and the functions on the path of a call are inlined, so that it stays in
/// registers.
#[derive(Debug)]
pub(super) struct Claimed<'c> {
    pub(super) client: &'c Client,
    /// Place among the client's slots.
    pub(super) index: SlotIndex,
    /// Number of the slot.
    pub(super) at: u32,
}

impl Drop for Claimed<'_> {
    #[inline]
    fn drop(&mut self) {
        self.client.give_back(self.index);
    }
}

impl<'c> Claimed<'c> {
    #[inline]
    fn message(&self) -> Bytes<'c> {
        self.client.service.message(self.at)
    }

    #[inline]
    fn slot(&self) -> &'c CallSlot {
        self.client.service.slot(self.at)
    }

    /// Posts the request of `len` bytes that `write` leaves in the slot, and waits for the reply.
    ///
    /// It is written right before it is posted: the server looks at the slot, and takes its line
    /// back at each look.
    #[inline]
    pub(super) fn call(
        self,
        len: usize,
        timeout: Option<Duration>,
        write: impl FnOnce(Bytes<'c>),
    ) -> Result<Reply<'c>, CallError> {
        let service = &self.client.service;
        let segment = service.segment();
        let Some(server) = service.server() else { return Err(service.unserved_error()) };
        segment.watch(server.holder);
        let (slot, me, message) = (self.slot(), wait::own_bell(segment), self.message());
        let ns = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1);
        let (ns, bell) = (timeout.map_or(0, ns), me.map(|me| me.number));
        write(message);
        let ticket = slot.post(len as u32, ns, bell.map(|bell| bell as u32));
        let leave = Leave { ticket, claimed: Some(self) };
        let answers = segment.ring(&service.words().servers, me.and_then(|me| me.cpu));
        if answers {
            let _ = wait::looks(wait::SOON, || slot.is_clients().then_some(()));
        }
        match slot.progress(ticket) {
            Progress::Replied => leave.read_reply(slot, message),
            _ => leave.wait_for(server, NotifiedBy::By(bell), deadline_after(timeout)),
        }
    }

    fn leave(&self, ticket: Ticket) -> Left {
        self.slot().leave(ticket, self.client.service.mark(self.at))
    }

    /// Leaves a call without a reader for its outcome.
    #[cold]
    fn leave_unread(self, ticket: Ticket) {
        if self.leave(ticket) == Left::Abandoned {
            self.give_up();
        }
    }

    /// Gives the slot up while a server has it in hand.
    fn give_up(self) {
        self.client.give_up(self.index);
        std::mem::forget(self);
    }
}

/// A call that is under way; left where this is dropped, as by a cancel.
struct Leave<'c> {
    ticket: Ticket,
    claimed: Option<Claimed<'c>>,
}

impl<'c> Leave<'c> {
    /// Waits for the reply of `server`, which serves alone, or of any server of a shared service,
    /// of which any may take the request, and die.
    #[cold]
    #[inline(never)]
    fn wait_for(
        self,
        mut server: Seated,
        notified_by: NotifiedBy<'_>,
        deadline: Deadline,
    ) -> Result<Reply<'c>, CallError> {
        let (slot, message, at) =
            (self.claimed().slot(), self.claimed().message(), self.claimed().at);
        let service = &self.claimed().client.service;
        let segment = service.segment();
        loop {
            let in_time = if server.word.is_shared() {
                let before = Membership::before_attempt(segment);
                let over = || {
                    slot.is_clients()
                        || !service.may_reply(at, self.ticket)
                        || before.has_changed(segment)
                };
                wait::until(segment, notified_by, WAIT_KIND, deadline, over)
            } else {
                let over = || slot.is_clients() || !service.is_served_alone_by(server);
                wait::until(segment, notified_by, WAIT_KIND, deadline, over)
            };
            if segment.is_truncated() {
                return self.end_with(CallError::Truncated);
            }
            match slot.progress(self.ticket) {
                Progress::Replied => return self.read_reply(slot, message),
                Progress::Lost => return self.end_with(CallError::ServerDied),
                Progress::Corrupt => return self.end_with(CallError::Corrupt),
                Progress::Requested if !in_time => return self.time_out(),
                Progress::Requested => _ = service.end_of_server(at, self.ticket),
            }
            match service.server() {
                Some(_) if deadline.is_over() => return self.time_out(),
                Some(other) => server = other,
                None => return self.fail_server_gone(),
            }
            segment.watch(server.holder);
            wait::give_way();
        }
    }

    fn claimed(&self) -> &Claimed<'c> {
        self.claimed.as_ref().expect("a call ends once")
    }

    /// Returns the slot, which is the client's again.
    #[inline]
    fn ended(&mut self) -> Claimed<'c> {
        self.claimed.take().expect("a call ends once")
    }

    #[inline]
    fn read_reply(mut self, slot: &CallSlot, message: Bytes<'c>) -> Result<Reply<'c>, CallError> {
        let at = self.ended();
        match slot.code() {
            code::REPLIED => {
                let len = slot.len(message.len() as u32) as usize;
                Ok(Reply { at, bytes: message.first(len) })
            }
            code::PANICKED => Err(CallError::Panicked),
            _ => Err(CallError::Corrupt),
        }
    }

    fn end_with(mut self, error: CallError) -> Result<Reply<'c>, CallError> {
        drop(self.ended());
        Err(error)
    }

    fn time_out(mut self) -> Result<Reply<'c>, CallError> {
        match self.claimed().leave(self.ticket) {
            Left::Withdrawn => self.end_with(CallError::TimedOut { taken: false }),
            Left::Over => self.read_outcome(),
            Left::Abandoned => {
                self.ended().give_up();
                Err(CallError::TimedOut { taken: true })
            }
        }
    }

    /// Ends a call after its server has gone without a successor.
    fn fail_server_gone(mut self) -> Result<Reply<'c>, CallError> {
        match self.claimed().leave(self.ticket) {
            Left::Withdrawn => self.end_with(CallError::NotServed),
            Left::Over => self.read_outcome(),
            Left::Abandoned => {
                let claimed = self.ended();
                if !claimed.client.service.end_of_server(claimed.at, self.ticket) {
                    // A later server has it in hand.
                    claimed.give_up();
                }
                Err(CallError::ServerDied)
            }
        }
    }

    fn read_outcome(self) -> Result<Reply<'c>, CallError> {
        let (slot, message) = (self.claimed().slot(), self.claimed().message());
        match slot.progress(self.ticket) {
            Progress::Replied => self.read_reply(slot, message),
            Progress::Lost => self.end_with(CallError::ServerDied),
            _ => self.end_with(CallError::Corrupt),
        }
    }
}

impl Drop for Leave<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(claimed) = self.claimed.take() {
            claimed.leave_unread(self.ticket);
        }
    }
}

/// A slot in which a request is written in place, by [`Client::draft`].
#[derive(Debug)]
pub struct Draft<'c> {
    pub(super) at: Claimed<'c>,
    pub(super) timeout: Option<Duration>,
}

impl<'c> Draft<'c> {
    /// Returns the memory of the request, of the size of a slot. It holds arbitrary bytes at
    /// first.
    pub fn bytes(&self) -> Bytes<'c> {
        self.at.message()
    }

    /// Calls with the first `len` bytes, and waits for the reply for as long as the draft was
    /// given.
    ///
    /// # Errors
    ///
    /// As [`Client::call_bytes`].
    ///
    /// # Panics
    ///
    /// As [`Client::call`].
    pub fn call(self, len: usize) -> Result<Reply<'c>, CallError> {
        let limit = self.at.message().len();
        if len > limit {
            return Err(CallError::TooLarge { bytes: len, limit });
        }
        self.at.call(len, self.timeout, |_| ())
    }
}

/// A reply, in place; its slot is free again when this is dropped.
#[derive(Debug)]
pub struct Reply<'c> {
    at: Claimed<'c>,
    bytes: Bytes<'c>,
}

impl<'c> Reply<'c> {
    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a message")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the value of the reply.
    ///
    /// # Errors
    ///
    /// [`CallError::Size`] if the reply has another size; [`CallError::Truncated`].
    #[inline]
    pub fn read<R: AnyBitPattern>(&self) -> Result<R, CallError> {
        self.at.client.service.read(self.bytes())
    }

    /// Returns the bytes of the reply.
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        self.bytes
    }

    /// Returns a copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {

    use crate::Segment;
    use daiko_core::call::{Delivered, Taken};

    use super::super::super::seats::MAX_SERVERS;
    use super::super::super::{ServeError, Service};
    use super::*;

    fn posted(client: &Client) -> Leave<'_> {
        let claimed = client.claim(None).expect("there is room");
        Leave { ticket: claimed.slot().post(0, 0, None), claimed: Some(claimed) }
    }

    /// The client has seen that no process serves; before it leaves its call, a new server has
    /// that in hand.
    #[test]
    fn a_client_that_loses_its_server_leaves_its_slot_to_a_new_one_that_has_the_call_in_hand() {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let service = Service::create(&segment, "s", Service::options().slots(1)).unwrap();
        let client = Client::of(service.clone());
        let lost = posted(&client);
        let seat = service.take_seat(false).unwrap();
        let taken = service.slot(0).take(service.mark(0), seat.number);
        let Taken::Call(ticket) = taken else { panic!("posted") };

        assert!(matches!(lost.fail_server_gone(), Err(CallError::ServerDied)));
        assert_eq!(client.slots.try_take(), None, "it would write to memory that the server reads");
        assert!(!service.claim_slot(0), "another client would");
        assert_eq!(service.slot(0).reply(ticket, 0, code::REPLIED), Delivered::CallerLeft);
        assert!(service.claim_slot(0));
    }

    #[test]
    fn a_client_gets_its_slot_back_after_its_server_died_with_the_call() {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let service = Service::create(&segment, "s", Service::options().slots(1)).unwrap();
        let client = Client::of(service.clone());
        let lost = posted(&client);
        assert!(matches!(service.slot(0).take(service.mark(0), 0), Taken::Call(_)));

        assert!(matches!(lost.fail_server_gone(), Err(CallError::ServerDied)));
        assert!(service.slot(0).is_clients());
        assert!(client.slots.try_take().is_some());
    }

    /// The other server serves on, so that no new one ends the calls of the dead one.
    #[test]
    fn a_slot_that_was_left_to_a_server_is_free_when_that_has_gone() {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let service = Service::create(&segment, "s", Service::options().slots(1)).unwrap();
        let client = Client::of(service.clone());
        let seats = [(); 2].map(|()| service.take_seat(true).unwrap());
        let left = posted(&client);
        let taken = service.slot(0).take(service.mark(0), seats[1].number);
        assert!(matches!(taken, Taken::Call(_)));
        assert!(matches!(left.time_out(), Err(CallError::TimedOut { taken: true })));
        assert!(!service.claim_slot(0), "it is in hand");
        service.leave_seat(&seats[1]);
        assert!(service.server().is_some() && service.claim_slot(0));
    }

    #[test]
    fn servers_share_a_service_if_all_say_so() {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let service = Service::create(&segment, "s", Service::options()).unwrap();
        let alone = service.take_seat(false).unwrap();
        assert!([true, false].iter().all(|&shared| service.take_seat(shared).is_err()));
        service.leave_seat(&alone);
        let mut seats: Vec<_> =
            (0..MAX_SERVERS).map(|_| service.take_seat(true).unwrap()).collect();
        assert!(matches!(service.take_seat(true), Err(ServeError::Full)));
        assert!(matches!(service.take_seat(false), Err(ServeError::Served)));
        let first = seats.remove(0);
        service.leave_seat(&first);
        assert!(service.is_served(), "by the others");
        assert_eq!(service.take_seat(true).unwrap().number, first.number);
    }
}
