//! A lane against a plain queue, between threads, and with ends that a peer has spoilt.

use std::collections::VecDeque;
use std::thread;

use super::*;
use crate::atomic::AtomicU64;
use crate::testing::scaled;

fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Receive,
    /// A successor goes on.
    Succeeds,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..=most).prop_map(Step::Send),
        4 => Just(Step::Receive),
        1 => Just(Step::Succeeds),
    ];
    prop::collection::vec(step, 0..scaled(200))
}

/// Returns a message as long as a slot, behind its length.
fn framed(message: &[u8], size: usize) -> Vec<u8> {
    let mut framed = vec![message.len() as u8];
    framed.extend(message);
    framed.resize(size, 0);
    framed
}

proptest! {
    #[test]
    fn behaves_as_a_plain_queue(log in 0..4u32, each in 1..4usize, steps in steps(7)) {
        let (lane, words) = (Lane::new(), words(each << log));
        let slots = Slots::new(&words, each);
        let mut ends = (LaneSender::of(&lane, slots).unwrap(), LaneReceiver::of(&lane, slots).unwrap());
        let mut queue = VecDeque::new();
        for step in steps {
            match step {
                Step::Send(message) => {
                    let sent = ends.0.send(&lane, slots, &framed(&message, each * 8));
                    prop_assert_eq!(sent.is_ok(), queue.len() < 1 << log);
                    if sent.is_ok() {
                        queue.push_back(message);
                    }
                }
                Step::Receive => {
                    let mut message = vec![0; each * 8];
                    let received = ends.1.receive(&lane, slots, &mut message).ok();
                    let expected = queue.pop_front().map(|message| framed(&message, each * 8));
                    prop_assert_eq!(received.map(|()| message), expected);
                }
                Step::Succeeds => {
                    ends = (LaneSender::of(&lane, slots).unwrap(), LaneReceiver::of(&lane, slots).unwrap());
                }
            }
        }
    }

    #[test]
    fn messages_of_any_length_arrive(message in prop::collection::vec(any::<u8>(), 0..=24)) {
        let (lane, words) = (Lane::new(), words(6));
        let slots = Slots::new(&words, 3);
        LaneSender::of(&lane, slots).unwrap().send(&lane, slots, &message).unwrap();
        let mut received = vec![0; message.len()];
        LaneReceiver::of(&lane, slots).unwrap().receive(&lane, slots, &mut received).unwrap();
        prop_assert_eq!(received, message);
    }

    #[test]
    fn ends_further_apart_than_there_are_slots_are_noticed(tail: u64, head: u64, near in 0..9u64) {
        for tail in [tail, head.wrapping_add(near) << 1] {
            let (lane, words) = (Lane::new(), words(4));
            lane.spoil(tail, head);
            let slots = Slots::new(&words, 1);
            let possible = (tail >> 1).wrapping_sub(head) <= 4;
            prop_assert_eq!(LaneSender::of(&lane, slots).is_ok(), possible);
            prop_assert_eq!(LaneReceiver::of(&lane, slots).is_ok(), possible);
        }
    }

    #[test]
    fn each_side_ends_in_spite_of_any_writes_of_a_peer(
        ends in prop::collection::vec((any::<u64>(), any::<u64>(), 0..6u64), 1..20),
    ) {
        let (lane, words) = (Lane::new(), words(4));
        let slots = Slots::new(&words, 1);
        let (mut sender, mut receiver) =
            (LaneSender::of(&lane, slots).unwrap(), LaneReceiver::of(&lane, slots).unwrap());
        for (tail, head, near) in ends {
            for tail in [tail, head.wrapping_add(near) << 1] {
                lane.spoil(tail, head);
                // Both sides use their own counts: a burst is no longer than there are slots.
                let sent = (0..10).take_while(|_| sender.send(&lane, slots, &[1; 8]).is_ok()).count();
                lane.spoil(tail, head);
                let mut into = [0; 8];
                let received =
                    (0..10).take_while(|_| receiver.receive(&lane, slots, &mut into).is_ok()).count();
                prop_assert!(sent <= 8 && received <= 8);
            }
        }
    }
}

#[test]
fn a_lane_that_was_reset_is_as_new() {
    let (lane, words) = (Lane::new(), words(2));
    lane.spoil(99, 7);
    let slots = Slots::new(&words, 1);
    assert_eq!(LaneSender::of(&lane, slots).unwrap_err(), Corrupt);
    lane.reset();
    let mut sender = LaneSender::of(&lane, slots).unwrap();
    assert_eq!(sender.send(&lane, slots, &[1]), Ok(()));
}

#[test]
fn messages_sent_before_the_close_are_received_before_it() {
    let (lane, words) = (Lane::new(), words(2));
    let slots = Slots::new(&words, 1);
    let mut sender = LaneSender::of(&lane, slots).unwrap();
    let mut receiver = LaneReceiver::of(&lane, slots).unwrap();
    assert_eq!(sender.send(&lane, slots, &[7]), Ok(()));
    sender.close(&lane);
    assert_eq!(sender.send(&lane, slots, &[8]), Err(NotSent::Closed));
    let mut message = [0];
    assert_eq!(receiver.receive(&lane, slots, &mut message).map(|()| message), Ok([7]));
    assert_eq!(receiver.receive(&lane, slots, &mut message), Err(NotReceived::Closed));
    assert_eq!(
        LaneSender::of(&lane, slots).unwrap().send(&lane, slots, &[9]),
        Err(NotSent::Closed)
    );
}

#[test]
#[should_panic(expected = "a message longer than a slot")]
fn a_message_longer_than_a_slot_is_refused() {
    let (lane, words) = (Lane::new(), words(2));
    let slots = Slots::new(&words, 1);
    _ = LaneSender::of(&lane, slots).unwrap().send(&lane, slots, &[0; 9]);
}

#[test]
fn between_threads_all_arrives_in_order() {
    const MESSAGES: u64 = scaled(10_000) as u64;
    let (lane, words) = (Lane::new(), words(128));
    let slots = Slots::new(&words, 2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = LaneSender::of(&lane, slots).unwrap();
            for i in 0..MESSAGES {
                let message = (u128::from(i) << 64 | u128::from(!i)).to_ne_bytes();
                while sender.send(&lane, slots, &message).is_err() {
                    thread::yield_now();
                }
            }
            sender.close(&lane);
        });
        let mut receiver = LaneReceiver::of(&lane, slots).unwrap();
        let (mut expected, mut message) = (0, [0; 16]);
        loop {
            match receiver.receive(&lane, slots, &mut message) {
                Ok(()) => {
                    let read = u128::from_ne_bytes(message);
                    assert_eq!(read, u128::from(expected) << 64 | u128::from(!expected));
                    expected += 1;
                }
                Err(NotReceived::Closed) => break,
                Err(_) => thread::yield_now(),
            }
        }
        assert_eq!(expected, MESSAGES);
    });
}
