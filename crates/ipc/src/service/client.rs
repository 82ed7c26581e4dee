//! Clients, and their slots.

mod call;
mod leader;

use std::time::Duration;

use crate::atomic::Ordering;
use crate::{Segment, SegmentError};
use bytemuck::NoUninit;
use daiko_core::fiber::WaiterId;
use daiko_core::robust::Holder;
use daiko_core::slots::{self, ClientSlots, SlotIndex};

use self::call::Claimed;
pub use self::call::{Draft, Reply};
use super::super::wait::At;
#[cfg(doc)]
use super::ServiceOptions;
use super::{CallError, Service};
use daiko_rt::Deadline;

/// The most slots that one client claims.
pub(super) const MOST_SLOTS: usize = slots::MOST_SLOTS;

/// Name of a wait in messages.
const WAIT_KIND: &str = "Client::call";

/// Calls a [`Service`]. Any number of fibers and threads may call through one client at the same
/// time.
///
/// A client claims slots of the service as it needs them, up to its
/// [share](ServiceOptions::slots_per_client), and keeps them until it is dropped. A call that
/// finds all of them in use waits in FIFO order.
///
/// Clients of a server that has ended get an error at once, and go on as soon as it is served
/// again.
pub struct Client {
    service: Service,
    slots: ClientSlots<WaiterId>,
}

impl Client {
    /// Returns a client of the service of this name, which need not be served yet.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn connect(segment: &Segment, name: &str) -> Result<Client, SegmentError> {
        Ok(Self::of(Service::open(segment, name)?))
    }

    /// Returns a client of `service`.
    pub fn of(service: Service) -> Client {
        let share = service.shape().slots_per_client;
        Client { service, slots: ClientSlots::new(share) }
    }

    /// Returns the service of this client.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Waits until a process serves it, for at most `timeout`; `None`: without limit.
    ///
    /// A server that makes its segment anew serves another one: [`Segment::is_removed`] tells.
    ///
    /// # Errors
    ///
    /// [`CallError::TimedOut`], [`CallError::Truncated`].
    ///
    /// # Panics
    ///
    /// As [`call`](Self::call).
    pub fn wait_served(&self, timeout: Option<Duration>) -> Result<(), CallError> {
        let (words, segment) = (self.service.words(), self.service.segment());
        let attempt = || match self.service.is_served() {
            _ if segment.is_truncated() => Ok(Err(CallError::Truncated)),
            true => Ok(Ok(())),
            false => Err(()),
        };
        let at = At { segment, listeners: &words.waiting, operation: "Client::wait_served" };
        at.any_process(deadline_after(timeout), attempt, |()| self.service.server().is_some())
            .unwrap_or(Err(CallError::TimedOut { taken: false }))
    }

    /// Sends a request, and waits for the reply without limit.
    ///
    /// # Errors
    ///
    /// [`CallError`]
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`.
    #[inline]
    pub fn call<Q: NoUninit>(&self, request: &Q) -> Result<Reply<'_>, CallError> {
        self.ask(bytemuck::bytes_of(request), None)
    }

    /// Calls as [`call`](Self::call) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), and [`CallError::TimedOut`].
    ///
    /// # Panics
    ///
    /// As [`call`](Self::call).
    #[inline]
    pub fn call_timeout<Q: NoUninit>(
        &self,
        request: &Q,
        timeout: Duration,
    ) -> Result<Reply<'_>, CallError> {
        self.ask(bytemuck::bytes_of(request), Some(timeout))
    }

    /// Calls as [`call_timeout`](Self::call_timeout) does, with any number of bytes; `None`:
    /// without limit.
    ///
    /// # Errors
    ///
    /// As [`call_timeout`](Self::call_timeout), and [`CallError::TooLarge`].
    ///
    /// # Panics
    ///
    /// As [`call`](Self::call).
    pub fn call_bytes(
        &self,
        request: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Reply<'_>, CallError> {
        self.ask(request, timeout)
    }

    /// Returns a slot in which a request can be written in place.
    ///
    /// # Errors
    ///
    /// [`CallError::TimedOut`] if no slot is free within `timeout`, which is also that of the
    /// call; `None`: without limit.
    ///
    /// # Panics
    ///
    /// As [`call`](Self::call).
    pub fn draft(&self, timeout: Option<Duration>) -> Result<Draft<'_>, CallError> {
        Ok(Draft { at: self.claim(timeout)?, timeout })
    }

    #[inline]
    fn ask(&self, request: &[u8], timeout: Option<Duration>) -> Result<Reply<'_>, CallError> {
        let limit = self.service.slot_bytes();
        if request.len() > limit {
            return Err(CallError::TooLarge { bytes: request.len(), limit });
        }
        self.claim(timeout)?.call(request.len(), timeout, |message| message.write(request))
    }

    /// Waits for a slot of this client.
    #[inline]
    fn claim(&self, timeout: Option<Duration>) -> Result<Claimed<'_>, CallError> {
        // The index alone passes through the result, so that the turn stays in registers.
        let index = match self.slots.try_take() {
            Some(index) => index,
            None => self.claim_slow(deadline_after(timeout))?,
        };
        Ok(Claimed { client: self, index, at: self.slots.number(index) })
    }

    /// Claims one more slot of the service.
    fn claim_another(&self) -> Option<SlotIndex> {
        if !self.slots.has_room() {
            return None;
        }
        let at = (0..self.service.shape().slots).find(|&at| self.service.claim_slot(at))?;
        let index = self.slots.add(at);
        if index.is_none() {
            self.service.free_slot(at);
        }
        index
    }

    /// Gives a slot back: to the call that has waited longest, or to the next one.
    #[inline]
    fn give_back(&self, index: SlotIndex) {
        if let Some(owed) = self.slots.give_back(index) {
            self.hand_over(owed);
        }
    }

    /// Gives a slot up that a server has in hand: the slot is free once the server has ended.
    fn give_up(&self, index: SlotIndex) {
        let at = self.slots.give_up(index);
        // The server may have ended with it already, and have notified the waiters while it was
        // still claimed.
        self.service.free_slot(at);
        // It may have been the last slot that other calls wait for.
        self.elect_leader();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.slots.claimed().for_each(|at| self.service.free_slot(at));
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Service {
    /// Claims slot `at` if it is free or belongs to a dead process, and no server has it in hand.
    fn claim_slot(&self, at: u32) -> bool {
        let Some(word) = self.unclaimed(at) else { return false };
        let (claim, me) = (&self.claims()[at as usize], self.segment().me().bits());
        // Acquire: pairs with the Release in `free_slot`.
        let claimed =
            claim.compare_exchange(word, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if claimed {
            self.slot(at).renew();
            // Release: pairs with the Acquire in `Requests::take`.
            self.words().claimed.fetch_add(1, Ordering::Release);
        }
        claimed
    }

    /// Returns the claim of slot `at` if the slot is free or belongs to a dead process, and no
    /// server has it in hand. A server that has it in hand is made to notify when it ends.
    fn unclaimed(&self, at: u32) -> Option<u64> {
        let slot = self.slot(at);
        // The server has died, perhaps, while another one serves on.
        if let Some((ticket, _)) = slot.in_hand(self.mark(at)) {
            self.end_of_server(at, ticket);
        }
        // Before the look at the claim, so that a later client's request is left alone.
        let seen = slot.seen();
        let word = self.claims()[at as usize].load(Ordering::Relaxed);
        let is_free = Holder::of(word).is_none_or(|holder| self.segment().is_gone(holder));
        (is_free && slot.client_has_died(seen, self.mark(at))).then_some(word)
    }

    /// Returns the reason why no process serves it.
    #[cold]
    fn unserved_error(&self) -> CallError {
        if self.segment().is_truncated() { CallError::Truncated } else { CallError::NotServed }
    }

    /// Gives slot `at` up, in which this process has no call under way.
    fn free_slot(&self, at: u32) {
        // Release: pairs with the Acquire in `claim_slot`.
        self.claims()[at as usize].store(0, Ordering::Release);
        self.announce_free_slot();
    }

    /// Makes the waiters for a slot of the service look again.
    pub(super) fn announce_free_slot(&self) {
        // Release: pairs with the Acquire of the waiters for its change.
        self.words().freed.fetch_add(1, Ordering::Release);
        self.segment().ring(&self.words().waiting, None);
    }
}

fn deadline_after(timeout: Option<Duration>) -> Deadline {
    timeout.map_or(Deadline::NEVER, Deadline::after)
}
