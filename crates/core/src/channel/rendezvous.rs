//! A channel without room: senders and receivers wait for each other.

use std::ptr::NonNull;

use super::{Party, Side};
use crate::atomic::{AtomicBool, AtomicU32, Ordering, UnsafeCell, const_fn};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Locked, Node, NodeState, WaitQueue};

/// A meeting point where values pass from hand to hand, to and from the party that has waited
/// longest.
///
/// Budget: one RMW per call, and one line beside those of the parties.
pub struct Rendezvous<T, W> {
    /// The offers of both sides. The word is [`CLOSED`] or [`OPEN`].
    queue: WaitQueue<Offer<T, W>>,
    /// Number of queued offers of each side, under the lock. Both sides may be queued at once if
    /// parties wait for the first of several channels.
    queued: [AtomicU32; 2],
}

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// A place for the value that a party sends, or receives.
pub struct MeetingSlot<T> {
    value: UnsafeCell<Option<T>>,
    /// True while the party of the slot looks at its node, and so needs no wake. Under the lock of
    /// the queue that the offer is in.
    looks: AtomicBool,
}

impl<T> MeetingSlot<T> {
    /// Creates a slot with this value in it.
    pub fn new(value: Option<T>) -> Self {
        MeetingSlot { value: UnsafeCell::new(value), looks: AtomicBool::new(false) }
    }

    /// Returns the value, if there is one.
    pub fn into_inner(self) -> Option<T> {
        // SAFETY: the slot is the caller's alone.
        unsafe { self.replace(None) }
    }

    /// Puts `value` in, and returns the previous value.
    ///
    /// # Safety
    ///
    /// No offer of the slot is queued, and no other thread uses it at the time.
    pub unsafe fn replace(&self, value: Option<T>) -> Option<T> {
        // SAFETY: no other thread uses it, by this function's contract.
        self.value.with_mut(|slot| unsafe { std::mem::replace(&mut *slot, value) })
    }

    /// Returns true if it has a value.
    ///
    /// # Safety
    ///
    /// As for [`replace`](Self::replace).
    pub unsafe fn is_full(&self) -> bool {
        // SAFETY: as above.
        self.value.with(|slot| unsafe { (*slot).is_some() })
    }

    fn looks(&self) -> bool {
        // Relaxed: under the lock.
        self.looks.load(Ordering::Relaxed)
    }

    fn set_looks(&self, looks: bool) {
        // Relaxed: under the lock.
        self.looks.store(looks, Ordering::Relaxed);
    }
}

/// A party at a rendezvous.
pub struct Offer<T, W> {
    party: Party<W>,
    side: Side,
    slot: NonNull<MeetingSlot<T>>,
}

impl<T, W: Copy> Clone for Offer<T, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, W: Copy> Copy for Offer<T, W> {}

// SAFETY: the slot's value passes from thread to thread under the queue lock.
unsafe impl<T: Send, W: Send> Send for Offer<T, W> {}

impl<T, W> Offer<T, W> {
    /// Creates an offer to send the value in `slot`, or to receive one into it.
    ///
    /// # Safety
    ///
    /// The slot stays valid, and is left alone, while the offer is in a queue. To send, it has a
    /// value; to receive, none.
    pub unsafe fn new(party: Party<W>, side: Side, slot: &MeetingSlot<T>) -> Self {
        Offer { party, side, slot: NonNull::from(slot) }
    }

    /// Returns true if a party was met, and the value has passed; false if the channel was closed.
    ///
    /// # Safety
    ///
    /// The offer is the caller's, and was claimed.
    pub unsafe fn has_met(&self) -> bool {
        // SAFETY: valid, and the caller's again, by this function's contract.
        unsafe { self.slot.as_ref().is_full() == (self.side == Side::Receive) }
    }

    /// Returns the waiter to wake once the offer is claimed. Under the lock of the queue that it is
    /// in.
    fn waiter_to_wake(&self) -> Option<W>
    where
        W: Copy,
    {
        // SAFETY: valid while the offer is in a queue, by the contract of `new`.
        let looks = unsafe { self.slot.as_ref() }.looks();
        (!looks).then_some(self.party.waiter)
    }
}

/// The outcome of an offer.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting<W> {
    /// The value has passed; wake this waiter, exactly once. There is none if the party looks at
    /// its node.
    Met(Option<W>),
    /// No party of the other side waits.
    Alone,
    /// The rendezvous is closed.
    Closed,
}

impl<T, W: Copy> Rendezvous<T, W> {
    const_fn! {
        /// Creates a rendezvous without parties.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self { queue: WaitQueue::new(OPEN), queued: [AtomicU32::new(0), AtomicU32::new(0)] }
        }
    }

    /// Takes the lock, for several changes that belong together.
    pub fn lock(&self, by: &impl Contender) -> LockedRendezvous<'_, T, W> {
        LockedRendezvous { rendezvous: self, queue: self.queue.lock(by) }
    }

    /// Returns true if it was closed.
    pub fn is_closed(&self) -> bool {
        // Relaxed: the word is used for this answer only.
        self.queue.word().load(Ordering::Relaxed) == CLOSED
    }

    fn queued(&self, side: Side) -> &AtomicU32 {
        &self.queued[side as usize]
    }
}

/// A locked rendezvous.
pub struct LockedRendezvous<'r, T, W> {
    rendezvous: &'r Rendezvous<T, W>,
    queue: Locked<'r, Offer<T, W>>,
}

impl<T, W: Copy> LockedRendezvous<'_, T, W> {
    /// Passes a value between the slot of `offer` and that of the party that has waited longest on
    /// the other side.
    #[inline]
    pub fn meet(&mut self, offer: &Offer<T, W>) -> Meeting<W> {
        let other = offer.side.other();
        if self.rendezvous.is_closed() {
            return Meeting::Closed;
        }
        if self.count(other) == 0 {
            return Meeting::Alone;
        }
        let mut waiter = None;
        let met = self.queue.claim_first_that(0, |theirs| {
            let meets = theirs.side == other && theirs.party.try_claim();
            if meets {
                // SAFETY: theirs is queued and now claimed by this caller, ours is this caller's.
                unsafe { pass(offer, &theirs) };
                waiter = theirs.waiter_to_wake();
            }
            meets
        });
        if met.is_none() {
            return Meeting::Alone;
        }
        self.set_count(other, self.count(other) - 1);
        Meeting::Met(waiter)
    }

    /// Returns true if `offer` can meet a party, or never will meet one.
    pub fn is_ready(&self, offer: &Offer<T, W>) -> bool {
        if cfg!(weaken = "channel-look") {
            return false;
        }
        let other = offer.side.other();
        let waits = |theirs: Offer<T, W>| {
            theirs.side == other && theirs.party.is_open() && !theirs.party.is_beside(&offer.party)
        };
        self.rendezvous.is_closed() || self.count(other) > 0 && self.queue.any(waits)
    }

    /// Queues an offer that [`meet`](Self::meet) has left alone under this lock.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`]; the queue is left by [`leave`](Self::leave).
    pub unsafe fn enqueue(&mut self, node: NonNull<Node<Offer<T, W>>>) {
        // SAFETY: alive, by this function's contract.
        let side = unsafe { node.as_ref() }.waiter().side;
        self.set_count(side, self.count(side) + 1);
        // SAFETY: passed on to the caller.
        unsafe { self.queue.enqueue(node) };
    }

    /// Announces that the party of `node`, which is queued under this lock, looks at the node until
    /// it is claimed or the party [rests](Self::rest). Only for a party that waits for this channel
    /// alone.
    ///
    /// # Safety
    ///
    /// As for [`enqueue`](Self::enqueue), which follows.
    #[inline]
    pub unsafe fn look(&mut self, node: &Node<Offer<T, W>>) {
        // SAFETY: the slot is valid, as that of an offer that is queued next.
        unsafe { node.waiter().slot.as_ref() }.set_looks(true);
    }

    /// Ends the party's looks at its node: from here on it needs a wake. Returns false if the offer
    /// was claimed before, without a wake.
    ///
    /// # Safety
    ///
    /// `node` is alive, and was queued here last, to be looked at.
    #[must_use = "no wake comes for a claimed offer"]
    pub unsafe fn rest(&mut self, node: NonNull<Node<Offer<T, W>>>) -> bool {
        // SAFETY: alive, by this function's contract.
        let node = unsafe { node.as_ref() };
        if node.state() != NodeState::Queued {
            return false;
        }
        if !cfg!(weaken = "channel-rest") {
            // SAFETY: valid, by the contract of `Offer::new`.
            unsafe { node.waiter().slot.as_ref() }.set_looks(false);
        }
        true
    }

    /// Takes an offer back, unless a party met it before.
    ///
    /// # Safety
    ///
    /// `node` is alive, and was queued here last.
    pub unsafe fn leave(&mut self, node: NonNull<Node<Offer<T, W>>>) -> Unlinked {
        // SAFETY: alive, by this function's contract.
        let side = unsafe { node.as_ref() }.waiter().side;
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { self.queue.unlink(node) };
        if unlinked == Unlinked::Mine {
            self.set_count(side, self.count(side) - 1);
        }
        unlinked
    }

    /// Closes the rendezvous: no two parties meet from here on. Returns a waiter to wake; call it
    /// again until it returns none.
    #[must_use = "the waiter is to be woken"]
    pub fn close(&mut self) -> Option<W> {
        // Relaxed: callers that decide by it hold the lock.
        self.rendezvous.queue.word().store(CLOSED, Ordering::Relaxed);
        loop {
            let mut waiter = None;
            let offer = self.queue.claim_first_that(0, |offer| {
                waiter = offer.waiter_to_wake();
                offer.party.try_claim()
            })?;
            self.set_count(offer.side, self.count(offer.side) - 1);
            if waiter.is_some() {
                return waiter;
            }
        }
    }

    fn count(&self, side: Side) -> u32 {
        // Relaxed: under the lock.
        self.rendezvous.queued(side).load(Ordering::Relaxed)
    }

    fn set_count(&mut self, side: Side, count: u32) {
        // Relaxed: under the lock.
        self.rendezvous.queued(side).store(count, Ordering::Relaxed);
    }
}

/// Moves the value of the sending offer into the slot of the other.
///
/// # Safety
///
/// Both slots are valid and the caller's.
unsafe fn pass<T, W>(ours: &Offer<T, W>, theirs: &Offer<T, W>) {
    let (from, to) = match ours.side {
        Side::Send => (ours.slot, theirs.slot),
        Side::Receive => (theirs.slot, ours.slot),
    };
    // SAFETY: valid and the caller's, by this function's contract.
    unsafe {
        let value = from.as_ref().replace(None);
        to.as_ref().replace(value);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::lock::testing::Tester;

    fn offer(side: Side, slot: &MeetingSlot<u8>) -> Offer<u8, u32> {
        // SAFETY: the tests keep the slot until the offer has left the queue.
        unsafe { Offer::new(Party::alone(7), side, slot) }
    }

    /// Queues a sender, lets it leave by `take`, and asserts that none is counted.
    fn counts_none_after(take: impl FnOnce(&mut LockedRendezvous<'_, u8, u32>)) {
        let channel = Rendezvous::new();
        let value = MeetingSlot::new(Some(1));
        let node = Node::new(offer(Side::Send, &value));
        let mut queue = channel.lock(&Tester(1));
        // SAFETY: in no queue, and `take` takes it out of this one.
        unsafe { queue.enqueue(NonNull::from(&node)) };
        assert_eq!(queue.count(Side::Send), 1);
        take(&mut queue);
        assert_eq!(queue.count(Side::Send), 0);
    }

    #[test]
    fn a_sender_that_was_met_is_not_counted() {
        let room = MeetingSlot::new(None);
        counts_none_after(|queue| {
            assert_eq!(queue.meet(&offer(Side::Receive, &room)), Meeting::Met(Some(7)));
        });
        assert_eq!(room.into_inner(), Some(1));
    }

    #[test]
    fn a_party_that_looks_needs_no_wake_until_it_rests() {
        for rests in [false, true] {
            let (channel, room) = (Rendezvous::new(), MeetingSlot::new(None));
            let node = Node::new(offer(Side::Receive, &room));
            let mut queue = channel.lock(&Tester(1));
            // SAFETY: queued below.
            unsafe { queue.look(&node) };
            // SAFETY: in no queue, and met below.
            unsafe { queue.enqueue(NonNull::from(&node)) };
            // SAFETY: alive, and queued here.
            assert!(!rests || unsafe { queue.rest(NonNull::from(&node)) });
            let value = MeetingSlot::new(Some(1));
            let met = queue.meet(&offer(Side::Send, &value));
            assert_eq!(met, Meeting::Met(rests.then_some(7)));
            // SAFETY: alive, and was queued here.
            assert!(rests || !unsafe { queue.rest(NonNull::from(&node)) });
            drop(queue);
            // SAFETY: claimed.
            assert!(unsafe { node.waiter().has_met() });
            assert_eq!(room.into_inner(), Some(1));
        }
    }

    #[test]
    fn a_close_ends_the_wait_of_a_party_that_looks() {
        let (channel, rooms) = (Rendezvous::new(), [(); 2].map(|()| MeetingSlot::new(None)));
        let nodes = [0, 1].map(|i| Node::new(offer(Side::Receive, &rooms[i])));
        let mut queue = channel.lock(&Tester(1));
        // SAFETY: queued below.
        unsafe { queue.look(&nodes[0]) };
        for node in &nodes {
            // SAFETY: in no queue, and claimed below.
            unsafe { queue.enqueue(NonNull::from(node)) };
        }
        assert_eq!([queue.close(), queue.close()], [Some(7), None], "the second one waits");
        // SAFETY: alive, and was queued here.
        assert!(!unsafe { queue.rest(NonNull::from(&nodes[0])) });
        // SAFETY: claimed.
        assert!(nodes.iter().all(|node| !unsafe { node.waiter().has_met() }));
    }

    #[test]
    fn a_sender_that_a_close_wakes_is_not_counted() {
        counts_none_after(|queue| assert_eq!(queue.close(), Some(7)));
    }
}
