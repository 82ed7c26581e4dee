//! Senders and receivers with more values than room, parties that leave, and parties that wait at
//! two channels.

use std::ptr::NonNull;

use loom::sync::Arc;

use super::*;
use crate::claim::Claim;
use crate::list::Unlinked;
use crate::lock::testing::Tester;
use crate::modelled::{Sleep, bounded, spawn};
use crate::wait::{Node, NodeState};

struct Shared<C> {
    channel: C,
    wakes: [Sleep; 3],
}

impl<C> Shared<C> {
    fn new(channel: C) -> Arc<Self> {
        Arc::new(Self { channel, wakes: [Sleep::new(), Sleep::new(), Sleep::new()] })
    }

    fn wake(&self, waiter: Option<usize>) {
        if let Some(waiter) = waiter {
            self.wakes[waiter].wake();
        }
    }
}

impl<C> Shared<[C; 2]> {
    /// Makes one turn of a wait at both channels: `queues` puts the party in line at one, or
    /// returns false if it need not wait; `leaves` takes it out. Returns the channel that claimed
    /// it, if one did.
    fn turn_at_both(
        &self,
        actor: usize,
        claim: &Claim,
        queues: impl FnMut(usize) -> bool,
        leaves: impl FnMut(usize),
    ) -> Option<usize> {
        let queued = [0, 1].into_iter().all(queues);
        if queued {
            self.wakes[actor].wait();
        }
        let outcome = claim.close();
        if !queued && outcome.is_some() {
            self.wakes[actor].wait();
        }
        [0, 1].into_iter().for_each(leaves);
        outcome.map(usize::from)
    }
}

fn by(actor: usize) -> Tester {
    Tester(actor as u32 + 1)
}

fn ring(capacity: usize) -> Arc<Shared<Buffered<RingBuffer<Box<u32>>, usize>>> {
    Shared::new(Buffered::new(RingBuffer::new(capacity)))
}

fn unbounded() -> Arc<Shared<Unbounded<Box<u32>, usize>>> {
    Shared::new(Unbounded::new())
}

impl<C: Stored<usize, Value = Box<u32>>> Shared<C> {
    /// Waits with `node` at `side`, unless it need not; returns true if it was claimed.
    fn wait_at(
        &self,
        side: Side,
        actor: usize,
        node: &Node<Party<usize>>,
        was_claimed: bool,
    ) -> bool {
        let node = NonNull::from(node);
        // SAFETY: in no queue, and stays until it is claimed.
        let waits = unsafe { self.channel.enqueue(side, &by(actor), node, was_claimed) };
        if waits {
            self.wakes[actor].wait();
        }
        waits
    }

    fn send(&self, actor: usize, value: u32) {
        let (node, mut was_claimed) = (Node::new(Party::alone(actor)), false);
        let mut value = Box::new(value);
        loop {
            value = match self.channel.send(&by(actor), value) {
                Ok(waiter) => return self.wake(waiter),
                Err(Refused::Full(value)) => value,
                Err(Refused::Closed(_)) => panic!("closed"),
            };
            was_claimed |= self.wait_at(Side::Send, actor, &node, was_claimed);
        }
    }

    fn receive(&self, actor: usize) -> Option<u32> {
        let (node, mut was_claimed) = (Node::new(Party::alone(actor)), false);
        loop {
            match self.channel.receive(&by(actor)) {
                Ok((value, waiter)) => {
                    self.wake(waiter);
                    return Some(*value);
                }
                Err(Nothing::Closed) => return None,
                Err(Nothing::Empty) => {}
            }
            was_claimed |= self.wait_at(Side::Receive, actor, &node, was_claimed);
        }
    }

    /// Waits for a value, and leaves without one.
    fn turn_away(&self, actor: usize) {
        let node = Node::new(Party::alone(actor));
        let at = NonNull::from(&node);
        // SAFETY: in no queue, and stays until it has left or is claimed.
        if !unsafe { self.channel.enqueue(Side::Receive, &by(actor), at, false) } {
            return;
        }
        // SAFETY: alive, and queued here.
        let left = unsafe { self.channel.leave(Side::Receive, &by(actor), at) };
        if left == Unlinked::AlreadyGone {
            self.wakes[actor].wait();
            self.wake(self.channel.next(Side::Receive, &by(actor)));
        }
    }

    fn close(&self, actor: usize) {
        self.channel.close(&by(actor));
        while let Some(waiter) = self.channel.next(Side::Receive, &by(actor)) {
            self.wakes[waiter].wake();
        }
    }
}

#[test]
fn more_values_than_room_arrive_in_order() {
    loom::model(|| {
        let shared = ring(1);
        let sender = spawn(&shared, |shared| (1..=2).for_each(|value| shared.send(1, value)));
        assert_eq!([shared.receive(0), shared.receive(0)], [Some(1), Some(2)]);
        sender.join().unwrap();
        assert_eq!(shared.channel.count(), 0);
    });
}

#[test]
fn two_senders_take_places_of_their_own() {
    loom::model(|| {
        let shared = ring(2);
        let sender = spawn(&shared, |shared| shared.send(1, 1));
        shared.send(0, 2);
        sender.join().unwrap();
        assert_eq!(shared.receive(0).unwrap() + shared.receive(0).unwrap(), 3);
        assert_eq!(shared.channel.receive(&by(0)), Err(Nothing::Empty));
    });
}

#[test]
fn two_receivers_take_values_of_their_own() {
    loom::model(|| {
        let shared = ring(2);
        (1..=2).for_each(|value| shared.send(0, value));
        let receiver = spawn(&shared, |shared| shared.receive(1).unwrap());
        let received = shared.receive(0).unwrap();
        assert_eq!(receiver.join().unwrap() + received, 3);
    });
}

#[test]
fn a_leaving_waiter_passes_the_wake_on() {
    bounded(3, || {
        let shared = ring(1);
        let leaver = spawn(&shared, |shared| shared.turn_away(1));
        let receiver = spawn(&shared, |shared| shared.receive(2));
        shared.send(0, 7);
        assert_eq!(receiver.join().unwrap(), Some(7));
        leaver.join().unwrap();
    });
}

#[test]
fn a_waiter_learns_of_the_end() {
    loom::model(|| {
        let shared = ring(1);
        let receiver = spawn(&shared, |shared| [shared.receive(1), shared.receive(1)]);
        shared.send(0, 7);
        shared.close(0);
        assert_eq!(receiver.join().unwrap(), [Some(7), None]);
    });
}

#[test]
fn values_without_bounds_arrive_in_order() {
    loom::model(|| {
        let shared = unbounded();
        // More than a block has room for.
        let sender = spawn(&shared, |shared| (1..=3).for_each(|value| shared.send(1, value)));
        assert_eq!([(); 3].map(|()| shared.receive(0)), [Some(1), Some(2), Some(3)]);
        sender.join().unwrap();
        assert_eq!(shared.channel.count(), 0);
    });
}

#[test]
fn two_waiters_share_two_values_without_bounds() {
    bounded(3, || {
        let shared = unbounded();
        let receivers = [1, 2].map(|actor| spawn(&shared, move |shared| shared.receive(actor)));
        (1..=2).for_each(|value| shared.send(0, value));
        let received = receivers.map(|receiver| receiver.join().unwrap().unwrap());
        assert_eq!(received.iter().sum::<u32>(), 3);
    });
}

#[test]
fn values_that_are_moved_are_counted_once() {
    bounded(2, || {
        let shared = unbounded();
        (1..=3).for_each(|value| shared.send(0, value));
        let counts = spawn(&shared, |shared| shared.channel.count());
        assert_eq!([shared.receive(1), shared.receive(1)], [Some(1), Some(2)]);
        let count = counts.join().unwrap();
        assert!((1..=3).contains(&count), "{count}");
        assert_eq!(shared.channel.count(), 1);
    });
}

#[test]
fn no_more_values_are_taken_than_were_sent() {
    bounded(2, || {
        let shared = unbounded();
        let counts = spawn(&shared, |shared| shared.channel.count());
        (1..=2).for_each(|value| shared.send(0, value));
        assert_eq!([shared.receive(1), shared.receive(1)], [Some(1), Some(2)]);
        let count = counts.join().unwrap();
        assert!(count <= 2, "{count}");
    });
}

#[test]
fn a_channel_with_a_value_is_not_found_empty() {
    bounded(2, || {
        let shared = unbounded();
        (1..=3).for_each(|value| shared.send(0, value));
        let looks =
            spawn(&shared, |shared| shared.channel.receive(&by(2)).map(|(value, _)| *value));
        let received = shared.receive(1).unwrap();
        let other = looks.join().unwrap().expect("there are two more values");
        assert_eq!(received.max(other), 2);
        assert_eq!(shared.receive(1), Some(3));
    });
}

#[test]
fn a_leaving_waiter_passes_the_wake_on_without_bounds() {
    bounded(3, || {
        let shared = unbounded();
        let leaver = spawn(&shared, |shared| shared.turn_away(1));
        let receiver = spawn(&shared, |shared| shared.receive(2));
        shared.send(0, 7);
        assert_eq!(receiver.join().unwrap(), Some(7));
        leaver.join().unwrap();
    });
}

#[test]
fn an_unbounded_channel_that_is_closed_stays_so() {
    loom::model(|| {
        let shared = unbounded();
        let sender = spawn(&shared, |shared| {
            let sent = |value| shared.channel.send(&by(1), Box::new(value)).is_ok();
            u32::from(sent(1)) + u32::from(sent(2))
        });
        assert!(shared.channel.close(&by(0)));
        let sent = sender.join().unwrap();
        let received = std::iter::from_fn(|| shared.receive(0)).count();
        assert_eq!(received, sent as usize);
        assert!(shared.channel.is_closed() && !shared.channel.close(&by(0)));
    });
}

impl Shared<[Buffered<RingBuffer<Box<u32>>, usize>; 2]> {
    /// Waits at both for one turn. Returns the channel that claimed it, if one did.
    fn wait_at_both(&self, actor: usize, was_claimed: [bool; 2]) -> Option<usize> {
        let claim = Claim::new();
        // SAFETY: the claim stays until both nodes have left.
        let nodes = [0, 1].map(|at| Node::new(unsafe { Party::one_of(actor, &claim, at as u16) }));
        let node = |at: usize| NonNull::from(&nodes[at]);
        let (side, by) = (Side::Receive, by(actor));
        // SAFETY: in no queue, and stays until it has left or is claimed.
        let queues =
            |at: usize| unsafe { self.channel[at].enqueue(side, &by, node(at), was_claimed[at]) };
        // SAFETY: alive, and queued there if it is in a queue.
        let leaves = |at: usize| _ = unsafe { self.channel[at].leave(side, &by, node(at)) };
        self.turn_at_both(actor, &claim, queues, leaves)
    }

    fn try_receive(&self, actor: usize, at: usize) -> Option<u32> {
        let (value, sender) = self.channel[at].receive(&by(actor)).ok()?;
        assert_eq!(sender, None, "there is room for all");
        Some(*value)
    }

    /// Receives the first value of either channel; looks first at the channel that claimed it.
    fn choose(&self, actor: usize) -> u32 {
        let (mut was_claimed, mut first) = ([false; 2], 0);
        loop {
            let tries = [first, 1 - first].into_iter();
            if let Some(value) = tries.map(|at| self.try_receive(actor, at)).find(Option::is_some) {
                return value.unwrap();
            }
            if let Some(at) = self.wait_at_both(actor, was_claimed) {
                (was_claimed[at], first) = (true, at);
            }
        }
    }

    /// Takes a value of the first at once, or waits there to be woken.
    fn take_or_wait(&self, actor: usize) -> Option<u32> {
        // Not `receive`: loom explores without end how two parties that look again let each other
        // go first.
        if let Some((value, _)) = self.channel[0].buffer().pop() {
            return Some(*value);
        }
        let node = Node::new(Party::alone(actor));
        let (side, at) = (Side::Receive, NonNull::from(&node));
        // SAFETY: in no queue, and stays until it is claimed.
        if unsafe { self.channel[0].enqueue(side, &by(actor), at, false) } {
            self.wakes[actor].wait();
        }
        None
    }

    fn send(&self, actor: usize, at: usize, value: u32) {
        let sent = self.channel[at].send(&by(actor), Box::new(value));
        self.wake(sent.expect("there is room for all"));
    }
}

#[test]
fn a_waiter_woken_in_vain_keeps_no_wake() {
    bounded(3, || {
        let shared = Shared::new([2, 1].map(|room| Buffered::new(RingBuffer::new(room))));
        let chooser = spawn(&shared, |shared| shared.choose(1));
        let other = spawn(&shared, |shared| shared.take_or_wait(2));
        (1..=2).for_each(|value| shared.send(0, 0, value));
        let taken = chooser.join().unwrap() + other.join().unwrap().unwrap_or(0);
        assert_eq!(taken + shared.try_receive(0, 0).unwrap_or(0), 3);
    });
}

impl Shared<Rendezvous<Box<u32>, usize>> {
    fn rendezvous() -> Arc<Self> {
        Self::new(Rendezvous::new())
    }

    /// Meets a party, and returns the content of `slot` afterwards. Looks at the node once before a
    /// wait, if it `looks`.
    fn meet(&self, actor: usize, side: Side, value: Option<u32>, looks: bool) -> Option<u32> {
        let slot = MeetingSlot::new(value.map(Box::new));
        // SAFETY: left alone until it was met.
        let offer = unsafe { Offer::new(Party::alone(actor), side, &slot) };
        let node = Node::new(offer);
        let mut queue = self.channel.lock(&by(actor));
        match queue.meet(&offer) {
            Meeting::Met(waiter) => {
                drop(queue);
                self.wake(waiter);
            }
            Meeting::Alone => {
                if looks {
                    // SAFETY: queued below.
                    unsafe { queue.look(&node) };
                }
                // SAFETY: in no queue, and stays until it is claimed.
                unsafe { queue.enqueue(NonNull::from(&node)) };
                drop(queue);
                if !looks || self.rests(actor, &node) {
                    self.wakes[actor].wait();
                }
            }
            Meeting::Closed => panic!("closed"),
        }
        slot.into_inner().map(|value| *value)
    }

    /// Looks at the node once; returns true if its party then has to wait for a wake.
    fn rests(&self, actor: usize, node: &Node<Offer<Box<u32>, usize>>) -> bool {
        // SAFETY: alive, and queued there after `look`.
        node.state() == NodeState::Queued
            && unsafe { self.channel.lock(&by(actor)).rest(NonNull::from(node)) }
    }
}

/// Passes two values between parties that look before they wait, or do not.
fn two_values_pass(receiver_looks: bool, sender_looks: bool) {
    loom::model(move || {
        let shared = Shared::rendezvous();
        let sender = spawn(&shared, move |shared| {
            let send = |value| shared.meet(1, Side::Send, Some(value), sender_looks);
            (1..=2).for_each(|value| assert_eq!(send(value), None));
        });
        let receiver = spawn(&shared, move |shared| {
            [(); 2].map(|()| shared.meet(0, Side::Receive, None, receiver_looks))
        });
        assert_eq!(receiver.join().unwrap(), [Some(1), Some(2)]);
        sender.join().unwrap();
    });
}

#[test]
fn values_pass_from_hand_to_hand() {
    two_values_pass(false, false);
}

#[test]
fn a_party_that_looks_is_met_without_a_wake() {
    two_values_pass(false, true);
}

#[test]
fn two_parties_that_look_find_each_other() {
    two_values_pass(true, true);
}

#[test]
fn a_party_that_looks_sees_the_end() {
    loom::model(|| {
        let shared = Shared::rendezvous();
        let receiver = spawn(&shared, |shared| {
            let slot = MeetingSlot::new(None);
            // SAFETY: left alone until it was claimed.
            let node = Node::new(unsafe { Offer::new(Party::alone(0), Side::Receive, &slot) });
            let mut queue = shared.channel.lock(&by(0));
            if queue.meet(&node.waiter()) == Meeting::Closed {
                return;
            }
            // SAFETY: queued below.
            unsafe { queue.look(&node) };
            // SAFETY: in no queue, and stays until it is claimed.
            unsafe { queue.enqueue(NonNull::from(&node)) };
            drop(queue);
            if shared.rests(0, &node) {
                shared.wakes[0].wait();
            }
            assert!(matches!(node.state(), NodeState::Claimed(_)));
        });
        let waiter = shared.channel.lock(&by(1)).close();
        shared.wake(waiter);
        receiver.join().unwrap();
    });
}

#[test]
fn a_waiter_at_two_channels_receives_from_one() {
    loom::model(|| {
        type Both = [Rendezvous<Box<u32>, usize>; 2];
        let shared = Shared::<Both>::new([Rendezvous::new(), Rendezvous::new()]);
        // True for each channel from which the value was taken.
        let senders = [0, 1].map(|at| {
            spawn(&shared, move |shared: &Shared<Both>| {
                let slot = MeetingSlot::new(Some(Box::new(at as u32)));
                // SAFETY: never queued.
                let offer = unsafe { Offer::new(Party::alone(at + 1), Side::Send, &slot) };
                let met = shared.channel[at].lock(&by(at + 1)).meet(&offer);
                match met {
                    Meeting::Met(waiter) => shared.wake(waiter),
                    met => assert_eq!(met, Meeting::Alone),
                }
                slot.into_inner().is_none()
            })
        });
        let claim = Claim::new();
        let slots = [MeetingSlot::new(None), MeetingSlot::new(None)];
        let nodes = [0, 1].map(|at| {
            // SAFETY: claim and slots stay until both offers have left.
            let party = unsafe { Party::one_of(0, &claim, at as u16) };
            // SAFETY: as above.
            Node::new(unsafe { Offer::new(party, Side::Receive, &slots[at]) })
        });
        for at in [0, 1] {
            // SAFETY: in no queue, and stays until it has left or is claimed.
            unsafe { shared.channel[at].lock(&by(0)).enqueue(NonNull::from(&nodes[at])) };
        }
        let outcome = claim.close();
        if outcome.is_some() {
            shared.wakes[0].wait();
        }
        for at in [0, 1] {
            // SAFETY: alive, and queued there.
            let _ = unsafe { shared.channel[at].lock(&by(0)).leave(NonNull::from(&nodes[at])) };
        }
        let taken = senders.map(|sender| sender.join().unwrap());
        for (at, slot) in slots.into_iter().enumerate() {
            let received = slot.into_inner().map(|value| *value);
            assert_eq!(received, (outcome == Some(at as u16)).then_some(at as u32));
            assert_eq!(taken[at], received.is_some());
        }
    });
}

impl Shared<[Rendezvous<Box<u32>, usize>; 2]> {
    /// Offers `slot` to a waiting party, and returns true if one was met.
    fn try_meet(&self, actor: usize, at: usize, side: Side, slot: &MeetingSlot<Box<u32>>) -> bool {
        // SAFETY: never queued.
        let offer = unsafe { Offer::new(Party::alone(actor), side, slot) };
        let met = self.channel[at].lock(&by(actor)).meet(&offer);
        match met {
            Meeting::Met(waiter) => self.wake(waiter),
            met => assert_eq!(met, Meeting::Alone),
        }
        met != Meeting::Alone
    }

    /// Waits at both for one turn. Returns the channel where a party was met, if one was.
    fn wait_at_both(
        &self,
        actor: usize,
        side: Side,
        slots: &[MeetingSlot<Box<u32>>; 2],
    ) -> Option<usize> {
        let claim = Claim::new();
        let offers = [0, 1].map(|at| {
            // SAFETY: claim and slots stay until both offers have left.
            unsafe { Offer::new(Party::one_of(actor, &claim, at as u16), side, &slots[at]) }
        });
        let nodes = offers.map(Node::new);
        let lock = |at: usize| self.channel[at].lock(&by(actor));
        let queues = |at: usize| {
            let mut queue = lock(at);
            let waits = !queue.is_ready(&offers[at]);
            if waits {
                // SAFETY: in no queue, and stays until it has left or is claimed.
                unsafe { queue.enqueue(NonNull::from(&nodes[at])) };
            }
            waits
        };
        // SAFETY: alive, and queued there if it is in a queue.
        let leaves = |at: usize| _ = unsafe { lock(at).leave(NonNull::from(&nodes[at])) };
        self.turn_at_both(actor, &claim, queues, leaves)
    }

    /// Sends the first or second of both values, or receives, at the first or second channel.
    /// Returns the channel, and the contents of the slots.
    fn choose(&self, actor: usize, side: Side) -> (usize, [Option<u32>; 2]) {
        let values = [0, 1].map(|at| (side == Side::Send).then(|| Box::new(at)));
        let slots = values.map(MeetingSlot::new);
        loop {
            let met = self.wait_at_both(actor, side, &slots);
            let tries =
                || [0, 1].into_iter().find(|&at| self.try_meet(actor, at, side, &slots[at]));
            if let Some(at) = met.or_else(tries) {
                return (at, slots.map(|slot| slot.into_inner().map(|value| *value)));
            }
        }
    }
}

#[test]
fn two_selects_on_the_same_channels_find_each_other() {
    loom::model(|| {
        let shared = Shared::new([Rendezvous::new(), Rendezvous::new()]);
        let sender = spawn(&shared, |shared| shared.choose(1, Side::Send));
        let (at, received) = shared.choose(0, Side::Receive);
        let (from, left) = sender.join().unwrap();
        assert_eq!(from, at);
        let is_there = |here: bool| [0, 1].map(|i| ((i == at) == here).then_some(i as u32));
        assert_eq!((received, left), (is_there(true), is_there(false)));
    });
}

#[test]
fn a_value_is_received_without_the_lock() {
    loom::model(|| {
        let shared = Shared::new(Oneshot::<Box<u32>, usize>::new());
        let sender = spawn(&shared, |shared| {
            // SAFETY: the sender, once.
            unsafe { shared.channel.send(&by(1), Box::new(7)) }.unwrap()
        });
        // SAFETY: the receiver.
        while let Err(unsent) =
            // SAFETY: the receiver.
            unsafe { shared.channel.receive() }.map(|value| assert_eq!(*value, 7))
        {
            assert_eq!(unsent, Unsent::Pending);
            loom::thread::yield_now();
        }
        assert_eq!(sender.join().unwrap(), None, "no waiter exists");
    });
}

#[test]
fn one_value_is_received_or_handed_back() {
    loom::model(|| {
        let shared = Shared::new(Oneshot::<Box<u32>, usize>::new());
        let sender = spawn(&shared, |shared| {
            // SAFETY: the sender, once.
            let sent = unsafe { shared.channel.send(&by(1), Box::new(7)) };
            sent.map(|waiter| shared.wake(waiter)).is_ok()
        });
        let node = Node::new(Party::alone(0));
        // SAFETY: in no queue, and stays until it has left or is claimed.
        if unsafe { shared.channel.enqueue(&by(0), NonNull::from(&node)) } {
            // SAFETY: alive, and queued here.
            match unsafe { shared.channel.leave(&by(0), NonNull::from(&node)) } {
                Unlinked::AlreadyGone => shared.wakes[0].wait(),
                Unlinked::Mine => assert_eq!(shared.channel.close(&by(0)), None),
            }
        }
        // SAFETY: the receiver.
        let received = unsafe { shared.channel.receive() }.map(|value| *value);
        let sent = sender.join().unwrap();
        assert_eq!(received, if sent { Ok(7) } else { Err(Unsent::Closed) });
    });
}
