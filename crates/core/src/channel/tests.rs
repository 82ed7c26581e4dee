//! Buffers compared with `VecDeque`, and their limits.

use std::cell::Cell as StdCell;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;

use proptest::prelude::*;

use super::*;
use crate::claim::Claim;
use crate::list::Unlinked;
use crate::lock::testing::Tester;
use crate::testing::scaled;
use crate::wait::{Node, NodeState};

#[derive(Clone, Debug)]
enum Step {
    Push(u8),
    Pop,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => any::<u8>().prop_map(Step::Push),
        9 => Just(Step::Pop),
        1 => Just(Step::Close),
    ];
    proptest::collection::vec(step, 0..scaled(400))
}

/// Makes the same steps with both; `room` is the capacity of the channel.
fn is_a_queue(channel: &impl Stored<u32, Value = Box<u8>>, room: usize, steps: Vec<Step>) {
    let (mut queue, mut closed) = (VecDeque::new(), false);
    for step in steps {
        match step {
            Step::Push(value) => {
                let expected = match (closed, queue.len() < room) {
                    (true, _) => Err(Refused::Closed(Box::new(value))),
                    (_, false) => Err(Refused::Full(Box::new(value))),
                    (_, true) => Ok(None),
                };
                assert_eq!(channel.send(&Tester(1), Box::new(value)), expected);
                if expected.is_ok() {
                    queue.push_back(value);
                }
            }
            Step::Pop => {
                let nothing = if closed { Nothing::Closed } else { Nothing::Empty };
                let popped = channel.receive(&Tester(1)).map(|(value, _)| *value);
                assert_eq!(popped, queue.pop_front().ok_or(nothing));
            }
            Step::Close => {
                assert_eq!(channel.close(&Tester(1)), !closed);
                closed = true;
            }
        }
        assert_eq!((channel.count(), channel.is_closed()), (queue.len(), closed));
    }
}

proptest! {
    #[test]
    fn a_ring_is_a_queue(capacity in 1usize..10, steps in steps()) {
        is_a_queue(&Buffered::new(RingBuffer::new(capacity)), capacity, steps);
    }

    #[test]
    fn an_unbounded_channel_is_a_queue(steps in steps()) {
        is_a_queue(&Unbounded::new(), usize::MAX, steps);
    }
}

#[test]
fn a_push_learns_of_queued_waiters() {
    let ring = RingBuffer::new(1);
    assert!(ring.announce_pop());
    assert_eq!(ring.push(1), Ok(Other::Queued));
    assert!(!ring.announce_pop());
    ring.retract_pop();
    assert_eq!(ring.pop(), Some((1, Other::Runs)));
    assert_eq!(ring.push(2), Ok(Other::Runs));
    assert!(ring.announce_push());
    assert_eq!(ring.pop(), Some((2, Other::Queued)));
    ring.close();
    assert!(!ring.announce_pop() && !ring.announce_push());
}

/// Queues a receiver that stays until it is claimed.
fn queue_receiver<C: Stored<u32>>(channel: &C, node: &Node<Party<u32>>, was_claimed: bool) {
    let node = NonNull::from(node);
    // SAFETY: in no queue; claimed by the test, or in a channel that the test does not use again.
    assert!(unsafe { channel.enqueue(Side::Receive, &Tester(1), node, was_claimed) });
}

#[test]
fn values_without_bounds_claim_one_receiver_after_the_other() {
    let (channel, by) = (Unbounded::new(), Tester(1));
    let nodes = [7, 8, 9].map(|waiter| Node::new(Party::alone(waiter)));
    nodes.iter().for_each(|node| queue_receiver(&channel, node, false));
    assert_eq!(channel.send(&by, 1), Ok(Some(7)));
    assert_eq!(channel.send(&by, 2), Ok(None), "the first has not yet looked");
    assert_eq!(channel.receive(&by), Ok((1, Some(8))), "a value is left for the next");
    assert_eq!(channel.receive(&by), Ok((2, None)));
    assert_eq!(channel.send(&by, 3), Ok(Some(9)), "8 may have looked in vain");
}

#[test]
#[should_panic(expected = "at least one")]
fn a_ring_for_nothing_is_refused() {
    let _ = RingBuffer::<u8>::new(0);
}

#[test]
#[cfg_attr(miri, ignore = "Miri has the memory for none of them")]
fn a_ring_beyond_memory_is_refused() {
    for capacity in [usize::MAX, usize::MAX / 4, usize::MAX / 16, 1 << 50] {
        let payload =
            panic::catch_unwind(|| RingBuffer::<u8>::new(capacity)).map(drop).unwrap_err();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
        assert!(text.unwrap().contains("too many values"), "{capacity}: {text:?}");
    }
}

/// Counts its drops; the first panics.
struct Panics<'c>(&'c StdCell<usize>);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        self.0.update(|count| count + 1);
        if self.0.get() == 1 {
            panic::resume_unwind(Box::new(()));
        }
    }
}

fn drops_all<C: Stored<u32>>(channel: C, value: impl Fn() -> C::Value, dropped: &StdCell<usize>) {
    for _ in 0..100 {
        let Ok(None) = channel.send(&Tester(1), value()) else { panic!("there is room") };
    }
    assert!(panic::catch_unwind(AssertUnwindSafe(|| drop(channel))).is_err());
    assert_eq!(dropped.get(), 100);
}

#[test]
fn all_values_are_dropped_though_the_destructor_of_one_panics() {
    let dropped = StdCell::new(0);
    drops_all(Buffered::new(RingBuffer::new(100)), || Panics(&dropped), &dropped);
    dropped.set(0);
    drops_all(Unbounded::new(), || Panics(&dropped), &dropped);
}

/// Offers of one side of a rendezvous, as a choice between several operations makes them.
fn offer_of(claim: &Claim, side: Side, slot: &MeetingSlot<u8>) -> Offer<u8, u32> {
    // SAFETY: the tests keep claim and slot until the offer has left the queue.
    unsafe { Offer::new(Party::one_of(7, claim, 0), side, slot) }
}

#[test]
fn a_choice_between_both_sides_of_a_channel_does_not_meet_itself() {
    let (channel, claim, other) = (Rendezvous::new(), Claim::new(), Claim::new());
    let (value, room) = (MeetingSlot::new(Some(1)), MeetingSlot::new(None));
    let node = Node::new(offer_of(&claim, Side::Send, &value));
    let mut queue = channel.lock(&Tester(1));
    // SAFETY: in no queue, and it leaves this one below.
    unsafe { queue.enqueue(NonNull::from(&node)) };
    assert!(!queue.is_ready(&offer_of(&claim, Side::Receive, &room)));
    assert!(queue.is_ready(&offer_of(&other, Side::Receive, &room)));
    // SAFETY: alive, and in no other queue.
    assert_eq!(unsafe { queue.leave(NonNull::from(&node)) }, Unlinked::Mine);
}

#[test]
fn an_offer_whose_choice_was_claimed_elsewhere_is_none() {
    let (channel, claim, other) = (Rendezvous::new(), Claim::new(), Claim::new());
    let (value, room) = (MeetingSlot::new(Some(1)), MeetingSlot::new(None));
    let node = Node::new(offer_of(&claim, Side::Send, &value));
    let mut queue = channel.lock(&Tester(1));
    // SAFETY: in no queue, and it leaves this one below.
    unsafe { queue.enqueue(NonNull::from(&node)) };
    assert!(claim.try_claim(1));
    let receive = offer_of(&other, Side::Receive, &room);
    assert!(!queue.is_ready(&receive));
    assert_eq!(queue.meet(&receive), Meeting::Alone);
    // SAFETY: alive, and in no other queue.
    assert_eq!(unsafe { queue.leave(NonNull::from(&node)) }, Unlinked::Mine);
}

#[test]
fn a_oneshot_that_closes_wakes_its_waiter() {
    let (channel, node) = (Oneshot::<u8, u32>::new(), Node::new(Party::alone(7)));
    // SAFETY: in no queue, and claimed below.
    assert!(unsafe { channel.enqueue(&Tester(1), NonNull::from(&node)) });
    assert_eq!(channel.close(&Tester(1)), Some(7));
    assert_eq!(channel.close(&Tester(1)), None);
    assert_eq!(node.state(), NodeState::Claimed(0));
}

#[test]
fn a_party_that_was_claimed_in_vain_is_first_in_line_again() {
    let channel = Buffered::new(RingBuffer::<u8>::new(1));
    let nodes = [7, 8].map(|waiter| Node::new(Party::alone(waiter)));
    nodes.iter().for_each(|node| queue_receiver(&channel, node, false));
    for turn in [1, 2] {
        assert_eq!(channel.send(&Tester(1), turn), Ok(Some(7)));
        assert_eq!(channel.receive(&Tester(1)), Ok((turn, None)), "by a third party");
        queue_receiver(&channel, &nodes[0], true);
    }
}
