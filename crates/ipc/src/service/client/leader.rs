//! The waits of a client's calls for a slot, as the leader or a follower.

use std::ptr::NonNull;

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::slots::{Resigned, SlotEntry, SlotGrant, SlotIndex, SlotOwed, SlotReceiver};
use daiko_core::wait::Node;

use super::{Client, WAIT_KIND};
use crate::atomic::Ordering;
use crate::caller;
use crate::service::CallError;
use crate::wait::{self, At};
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self as waits, Ended, Object};

/// A slot that the leader has found by itself; `None`: it was granted one.
type Found = Option<SlotIndex>;

impl Client {
    /// Waits for a slot, behind other calls of this client.
    #[cold]
    pub(super) fn claim_slow(&self, deadline: Deadline) -> Result<SlotIndex, CallError> {
        if let Some(index) = self.claim_another() {
            return Ok(index);
        }
        if deadline.is_over() {
            return Err(CallError::TimedOut { taken: false });
        }
        let call = Call::enter();
        let waiter = caller::waiter(WAIT_KIND);
        let node = Node::new(waiter.id());
        // SAFETY: the node is new, and stays in place until it has left or is claimed.
        match unsafe { self.slots.enter(ThisThread::of(call.token()), NonNull::from(&node)) } {
            SlotEntry::Taken(index) => Ok(index),
            SlotEntry::Leads => self.lead(call.token(), deadline),
            SlotEntry::Follows => match waiter.wait(call.token(), &node, self, deadline) {
                Ended::TimedOut => Err(CallError::TimedOut { taken: false }),
                Ended::Claimed(note) => match SlotGrant::of(note) {
                    SlotGrant::Slot(index) => Ok(index),
                    SlotGrant::Lead => self.lead(call.token(), deadline),
                },
            },
        }
    }

    /// Waits for a slot, of the client's own or another one, as the leader that the caller has
    /// become.
    fn lead(&self, call: InCall<'_>, deadline: Deadline) -> Result<SlotIndex, CallError> {
        let leads = Leads(self);
        let (words, segment) = (self.service.words(), self.service.segment());
        let mut again = false;
        let attempt = || {
            if std::mem::replace(&mut again, true) {
                wait::give_way();
            }
            // After the yield, as a migratable fiber may have gone on elsewhere.
            let bell = wait::own_bell(segment).map(|bell| bell.number as u32);
            self.slots.listen(ThisThread::of(call), bell);
            // Acquire: pairs with the Release in `announce_free_slot`.
            let seen = words.freed.load(Ordering::Acquire);
            self.look_for_slot().ok_or(seen)
        };
        let has_changed = |&seen: &u32| {
            let freed = words.freed.load(Ordering::Acquire) != seen;
            freed || self.slots.is_granted() || self.service.server().is_none()
        };
        let at = At { segment, listeners: &words.waiting, operation: WAIT_KIND };
        let found = at.any_process(deadline, attempt, has_changed);
        leads.end(call, found.unwrap_or(Err(CallError::TimedOut { taken: false })))
    }

    /// Result of a leader's look: a slot, or that no slot is usable.
    fn look_for_slot(&self) -> Option<Result<Found, CallError>> {
        if self.slots.is_granted() {
            return Some(Ok(None));
        }
        let found = self.slots.try_take().or_else(|| self.claim_another());
        let is_served = !self.service.segment().is_truncated() && self.service.server().is_some();
        match found {
            Some(index) => Some(Ok(Some(index))),
            None => (!is_served).then(|| Err(self.service.unserved_error())),
        }
    }

    /// Ends the leader, which is the caller; returns the slot that it was granted.
    fn resign(&self, call: InCall<'_>) -> Option<SlotIndex> {
        let Resigned { granted, successor } = self.slots.resign(ThisThread::of(call));
        waits::wake(call, successor);
        granted
    }

    /// Hands a slot over to the call that has waited longest.
    #[cold]
    pub(super) fn hand_over(&self, owed: SlotOwed) {
        let call = Call::enter();
        match self.slots.hand_over(ThisThread::of(call.token()), owed) {
            SlotReceiver::None | SlotReceiver::Leader(None) => {}
            SlotReceiver::Leader(Some(bell)) => {
                self.service.segment().ring_bell(bell as usize, None);
            }
            SlotReceiver::Follower(waiter) => waits::wake(call.token(), Some(waiter)),
        }
    }

    /// Makes a follower the leader if the client may claim another slot, and no call leads.
    pub(super) fn elect_leader(&self) {
        let call = Call::enter();
        waits::wake(call.token(), self.slots.elect(ThisThread::of(call.token())));
    }
}

/// The leader's office; given up where this is dropped, as by a cancel.
struct Leads<'c>(&'c Client);

impl Leads<'_> {
    /// Resigns; returns the slot of the call, which is the granted one unless it has `found`
    /// another.
    fn end(
        self,
        call: InCall<'_>,
        found: Result<Found, CallError>,
    ) -> Result<SlotIndex, CallError> {
        let client = self.0;
        std::mem::forget(self);
        match (found, client.resign(call)) {
            (Ok(Some(index)), granted) => {
                granted.into_iter().for_each(|granted| client.give_back(granted));
                Ok(index)
            }
            (_, Some(granted)) => Ok(granted),
            (Err(error), None) => Err(error),
            (Ok(None), None) => unreachable!("a grant is taken by the leader alone"),
        }
    }
}

impl Drop for Leads<'_> {
    fn drop(&mut self) {
        let call = Call::enter();
        if let Some(granted) = self.0.resign(call.token()) {
            self.0.give_back(granted);
        }
    }
}

/// The queue of the followers.
impl Object<WaiterId> for Client {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<WaiterId>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.slots.leave(ThisThread::of(call), node) }
    }

    fn give_way(&self, call: InCall<'_>, note: u8) -> bool {
        let index = match SlotGrant::of(note) {
            SlotGrant::Slot(index) => Some(index),
            SlotGrant::Lead => self.resign(call),
        };
        index.into_iter().for_each(|index| self.give_back(index));
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Semaphore, &self.slots)
    }
}
