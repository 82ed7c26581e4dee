//! A lane against a plain queue, between threads, and with ends that a peer has spoilt.

use std::collections::VecDeque;
use std::thread;

use super::*;
use crate::atomic::{AtomicU64, Ordering};
use crate::testing::scaled;

/// Four slots.
const FOUR: Slots = Slots::new(4);

#[derive(Clone, Debug)]
enum Step {
    Send(u64),
    Receive,
    /// A successor goes on.
    Succeeds,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<u64>().prop_map(Step::Send),
        4 => Just(Step::Receive),
        1 => Just(Step::Succeeds),
    ];
    prop::collection::vec(step, 0..scaled(200))
}

proptest! {
    #[test]
    fn behaves_as_a_plain_queue(log in 0..4u32, steps in steps()) {
        let (lane, mut messages, slots) = (Lane::new(), vec![0; 1 << log], Slots::new(1 << log));
        let mut ends = (LaneSender::of(&lane, slots).unwrap(), LaneReceiver::of(&lane, slots).unwrap());
        let mut queue = VecDeque::new();
        for step in steps {
            match step {
                Step::Send(message) => {
                    let sent = ends.0.send(&lane, slots, |slot| messages[slot] = message);
                    prop_assert_eq!(sent.is_ok(), queue.len() < 1 << log);
                    if sent.is_ok() {
                        queue.push_back(message);
                    }
                }
                Step::Receive => {
                    let received = ends.1.receive(&lane, slots, |slot| messages[slot]).ok();
                    prop_assert_eq!(received, queue.pop_front());
                }
                Step::Succeeds => {
                    ends = (LaneSender::of(&lane, slots).unwrap(), LaneReceiver::of(&lane, slots).unwrap());
                }
            }
        }
    }

    #[test]
    fn ends_further_apart_than_there_are_slots_are_noticed(tail: u64, head: u64, near in 0..9u64) {
        for tail in [tail, head.wrapping_add(near) << 1] {
            let lane = Lane::new();
            lane.spoil(tail, head);
            let possible = (tail >> 1).wrapping_sub(head) <= 4;
            prop_assert_eq!(LaneSender::of(&lane, FOUR).is_ok(), possible);
            prop_assert_eq!(LaneReceiver::of(&lane, FOUR).is_ok(), possible);
        }
    }

    #[test]
    fn each_side_ends_in_spite_of_any_writes_of_a_peer(
        ends in prop::collection::vec((any::<u64>(), any::<u64>(), 0..6u64), 1..20),
    ) {
        let lane = Lane::new();
        let (mut sender, mut receiver) =
            (LaneSender::of(&lane, FOUR).unwrap(), LaneReceiver::of(&lane, FOUR).unwrap());
        let in_range = |slot| assert!(slot < 4);
        for (tail, head, near) in ends {
            for tail in [tail, head.wrapping_add(near) << 1] {
                lane.spoil(tail, head);
                // Both sides use their own counts: a burst is no longer than there are slots.
                let sent = (0..10).take_while(|_| sender.send(&lane, FOUR, in_range).is_ok()).count();
                lane.spoil(tail, head);
                let received =
                    (0..10).take_while(|_| receiver.receive(&lane, FOUR, in_range).is_ok()).count();
                prop_assert!(sent <= 8 && received <= 8);
                lane.spoil(tail, head);
                let shared =
                    (0..10).take_while(|_| lane.receive_shared(FOUR, in_range).is_ok()).count();
                prop_assert!(shared <= 4);
            }
        }
    }
}

#[test]
fn a_lane_that_was_reset_is_as_new() {
    let lane = Lane::new();
    lane.spoil(99, 7);
    assert_eq!(LaneSender::of(&lane, FOUR).unwrap_err(), Corrupt);
    lane.reset();
    let mut sender = LaneSender::of(&lane, FOUR).unwrap();
    assert_eq!(sender.send(&lane, FOUR, |_| ()), Ok(()));
}

#[test]
fn messages_sent_before_the_close_are_received_before_it() {
    let lane = Lane::new();
    let mut sender = LaneSender::of(&lane, FOUR).unwrap();
    let mut receiver = LaneReceiver::of(&lane, FOUR).unwrap();
    let refused = |_| unreachable!("the lane is closed");
    assert_eq!(sender.send(&lane, FOUR, |slot| assert_eq!(slot, 0)), Ok(()));
    sender.close(&lane);
    assert_eq!(sender.send(&lane, FOUR, refused), Err(NotSent::Closed));
    assert_eq!(receiver.receive(&lane, FOUR, |slot| slot), Ok(0));
    assert_eq!(receiver.receive(&lane, FOUR, refused), Err(NotReceived::Closed));
    let successor = LaneSender::of(&lane, FOUR);
    assert_eq!(successor.unwrap().send(&lane, FOUR, refused), Err(NotSent::Closed));
}

#[test]
fn between_threads_all_arrives_in_order() {
    const MESSAGES: u64 = scaled(10_000) as u64;
    let (lane, slots) = (Lane::new(), Slots::new(64));
    let messages = [const { [const { AtomicU64::new(0) }; 2] }; 64];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = LaneSender::of(&lane, slots).unwrap();
            for i in 0..MESSAGES {
                let write = |slot: usize| {
                    messages[slot][0].store(i, Ordering::Relaxed);
                    messages[slot][1].store(!i, Ordering::Relaxed);
                };
                while sender.send(&lane, slots, write).is_err() {
                    thread::yield_now();
                }
            }
            sender.close(&lane);
        });
        let mut receiver = LaneReceiver::of(&lane, slots).unwrap();
        let mut expected = 0;
        let read = |slot: usize| messages[slot].each_ref().map(|word| word.load(Ordering::Relaxed));
        loop {
            match receiver.receive(&lane, slots, read) {
                Ok(message) => {
                    assert_eq!(message, [expected, !expected]);
                    expected += 1;
                }
                Err(NotReceived::Closed) => break,
                Err(_) => thread::yield_now(),
            }
        }
        assert_eq!(expected, MESSAGES);
    });
}

#[test]
fn between_many_receivers_each_message_is_received_once() {
    const MESSAGES: u64 = scaled(10_000) as u64;
    let (lane, slots) = (Lane::new(), Slots::new(8));
    let messages = [const { [const { AtomicU64::new(0) }; 2] }; 8];
    let read = |slot: usize| messages[slot].each_ref().map(|word| word.load(Ordering::Relaxed));
    let receive = || {
        let (mut sum, mut last) = (0, 0);
        loop {
            match lane.receive_shared(slots, read) {
                Ok([message, check]) => {
                    assert_eq!(check, !message);
                    assert!(message > last, "in the order of the sender");
                    (sum, last) = (sum + message, message);
                }
                Err(NotReceived::Closed) => return sum,
                Err(NotReceived::Empty(_) | NotReceived::Contended) => thread::yield_now(),
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    thread::scope(|scope| {
        let receivers = [(); 3].map(|()| scope.spawn(receive));
        let mut sender = LaneSender::of(&lane, slots).unwrap();
        for i in 1..=MESSAGES {
            let write = |slot: usize| {
                messages[slot][0].store(i, Ordering::Relaxed);
                messages[slot][1].store(!i, Ordering::Relaxed);
            };
            while sender.send(&lane, slots, write).is_err() {
                thread::yield_now();
            }
        }
        sender.close(&lane);
        let sums = receivers.map(|receiver| receiver.join().unwrap());
        assert_eq!(sums.iter().sum::<u64>(), MESSAGES * (MESSAGES + 1) / 2);
    });
}

#[test]
fn a_receiver_that_is_overtaken_at_each_try_gives_up() {
    let (lane, slots) = (Lane::new(), FOUR);
    let mut sender = LaneSender::of(&lane, slots).unwrap();
    let overtaken = lane.receive_shared(slots, |_| ());
    assert!(matches!(overtaken, Err(NotReceived::Empty(_))));
    sender.send(&lane, slots, |_| ()).unwrap();
    let overtaken: Result<(), _> = lane.receive_shared(slots, |_| {
        lane.receive_shared(slots, |_| ()).unwrap();
        sender.send(&lane, slots, |_| ()).unwrap();
    });
    assert_eq!(overtaken, Err(NotReceived::Contended));
}
