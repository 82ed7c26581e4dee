use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use daiko::shm::{
    Channel, ConnectError, Receiver, RecvError, Segment, SegmentError, SendError, Sender,
};
use daiko_core::robust;
use proptest::prelude::*;

use crate::place::{
    LONG, Place, SHORT, let_them_sleep, raw_object, rest, theirs, until_a_waiter_listens,
};
use crate::support::child::is_child;
use crate::support::{assert_names, until, workers, yield_until};

fn channel(segment: &Segment, capacity: u32, senders: u32) -> Channel<u64> {
    let options = Channel::options().capacity(capacity).senders(senders);
    Channel::open_or_create(segment, "channel", options).unwrap()
}

/// The offset of the first lane, and that of its messages if there is one lane.
const LANE: usize = 128;
const SLOTS: usize = 384;

#[test]
fn messages_of_a_process_arrive_in_order_though_both_sides_wait() {
    const NAME: &str = "channel::messages_of_a_process_arrive_in_order_though_both_sides_wait";
    const MESSAGES: u64 = 20_000;
    if is_child() {
        let mut sender = channel(&theirs(), 2, 1).sender().unwrap();
        return workers(1).run(move || (0..MESSAGES).for_each(|i| sender.send(i).unwrap()));
    }
    let place = Place::new("channel");
    let mut receiver = channel(&place.segment, 2, 1).receiver().unwrap();
    let mut child = place.child(NAME);
    let received = workers(1).run(move || receiver.iter().enumerate().all(|(i, m)| i as u64 == m));
    child.ends_well();
    assert!(received);
}

#[test]
fn messages_of_several_processes_all_arrive_each_in_order() {
    const NAME: &str = "channel::messages_of_several_processes_all_arrive_each_in_order";
    const EACH: u64 = 5000;
    fn send(segment: &Segment, holder: u64) {
        let mut sender = channel(segment, 8, 4).sender().unwrap();
        (0..EACH).for_each(|i| sender.send(holder << 32 | i).unwrap());
    }
    if is_child() {
        let segment = theirs();
        return thread::scope(|s| {
            (0..2).for_each(|holder| {
                _ = s.spawn({
                    let segment = &segment;
                    move || send(segment, holder)
                })
            })
        });
    }
    let place = Place::new("several");
    let mut receiver = channel(&place.segment, 8, 4).receiver().unwrap();
    let mut child = place.child(NAME);
    let (runtime, segment) = (workers(2), place.segment.clone());
    let fibers: Vec<_> = (2..4)
        .map(|holder| {
            let segment = segment.clone();
            runtime.spawn(move || send(&segment, holder))
        })
        .collect();
    let mut next = [0; 4];
    for _ in 0..4 * EACH {
        let message = loop {
            match receiver.recv_timeout(LONG) {
                // The senders seen so far may have left before the rest came.
                Err(RecvError::Disconnected) => thread::yield_now(),
                received => break received.unwrap(),
            }
        };
        let (holder, i) = ((message >> 32) as usize, message & 0xffff_ffff);
        assert_eq!(std::mem::replace(&mut next[holder], i + 1), i);
    }
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    child.ends_well();
    assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
}

#[test]
fn the_messages_of_a_killed_sender_arrive_and_then_its_end() {
    const NAME: &str = "channel::the_messages_of_a_killed_sender_arrive_and_then_its_end";
    if is_child() {
        let segment = theirs();
        let mut sender = channel(&segment, 64, 1).sender().unwrap();
        (0..10).for_each(|i| sender.send(i).unwrap());
        rest(&segment, "sent");
    }
    let place = Place::new("sender");
    let channel = channel(&place.segment, 64, 1);
    let mut receiver = channel.receiver().unwrap();
    for _ in 0..2 {
        let sent = place.event("sent");
        let child = place.child(NAME);
        sent.wait();
        assert!(sent.reset());
        assert_eq!((0..5).map(|_| receiver.recv().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(channel.sender().map(drop), Err(ConnectError::Taken));
        let waiter = thread::spawn(move || {
            let rest: Vec<_> = receiver.iter().collect();
            (receiver, rest)
        });
        child.kill();
        let (again, rest) = waiter.join().unwrap();
        assert_eq!(rest, [5, 6, 7, 8, 9]);
        receiver = again;
    }
    // The place of the sender is free at once.
    channel.sender().unwrap().send(7).unwrap();
    assert_eq!(receiver.recv(), Ok(7));
}

#[test]
fn senders_learn_of_a_killed_receiver_and_the_next_one_goes_on() {
    const NAME: &str = "channel::senders_learn_of_a_killed_receiver_and_the_next_one_goes_on";
    if is_child() {
        let segment = theirs();
        let mut receiver = channel(&segment, 4, 2).receiver().unwrap();
        assert_eq!(receiver.recv(), Ok(0));
        rest(&segment, "received");
    }
    let place = Place::new("receiver");
    let channel = channel(&place.segment, 4, 2);
    let received = place.event("received");
    let child = place.child(NAME);
    let (mut full, mut roomy) = (channel.sender().unwrap(), channel.sender().unwrap());
    (0..5).for_each(|i| full.send_timeout(i, LONG).unwrap());
    received.wait();
    let runtime = workers(1);
    let waiter = runtime.spawn(move || {
        let error = full.send(5);
        (full, error)
    });
    roomy.send(100).unwrap();
    assert!(!roomy.is_disconnected());
    child.kill();
    let (mut full, error) = waiter.join().unwrap();
    assert_eq!(error, Err(SendError::Disconnected));
    // The same holds for a sender that has room, and does not wait.
    until("the death is seen", || roomy.try_send(101) == Err(SendError::Disconnected));
    // The dead receiver has taken one of the messages; the rest is still there.
    let mut next = channel.receiver().unwrap();
    assert_eq!(full.try_send(5), Err(SendError::Full));
    let got: Vec<_> = std::iter::from_fn(|| next.try_recv().ok()).collect();
    let of = |range: std::ops::Range<u64>| {
        got.iter().copied().filter(|message| range.contains(message)).collect::<Vec<_>>()
    };
    assert_eq!(of(0..100), [1, 2, 3, 4]);
    assert_eq!(of(100..200)[0], 100);
    full.send(5).unwrap();
    assert_eq!(next.recv(), Ok(5));
}

#[test]
fn a_sender_that_dies_before_it_rings_is_received_from() {
    const NAME: &str = "channel::a_sender_that_dies_before_it_rings_is_received_from";
    if is_child() {
        let segment = theirs();
        let object = raw_object(&segment, "channel");
        let lane = object.at::<robust::Lane>(LANE);
        let _ = lane.sender().take(segment.me(), |_| true);
        let_them_sleep();
        let (slots, message) = (robust::Slots::new(64), object.bytes(SLOTS, 64 * 8));
        let mut sender = robust::LaneSender::of(lane, slots).unwrap();
        let write = |slot| message.behind(slot * 8).write(&42u64.to_ne_bytes());
        sender.send(lane, slots, write).unwrap();
        std::process::abort();
    }
    let place = Place::new("unrung");
    let channel = channel(&place.segment, 64, 1);
    let mut receiver = channel.receiver().unwrap();
    let waiter = thread::spawn(move || receiver.recv());
    until_a_waiter_listens(&place.segment, "channel", 8);
    let _child = place.child(NAME);
    assert_eq!(waiter.join().unwrap(), Ok(42));
}

#[test]
fn waits_end_at_their_deadlines() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let channel = channel(&segment, 1, 1);
    let waits = move || {
        let (mut sender, mut receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
        assert_eq!(receiver.try_recv(), Err(RecvError::Empty));
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(receiver.recv_timeout(timeout), Err(RecvError::TimedOut));
            assert_eq!(receiver.recv_timeout(Instant::now() + timeout), Err(RecvError::TimedOut));
        }
        sender.try_send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(SendError::Full));
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(sender.send_timeout(2, timeout), Err(SendError::TimedOut));
            assert_eq!(sender.send_timeout(2, Instant::now() + timeout), Err(SendError::TimedOut));
        }
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(1));
    };
    waits();
    workers(1).run(waits);
}

#[test]
fn a_waiter_learns_that_the_other_end_is_dropped() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let channel = channel(&segment, 1, 2);
    workers(1).run(move || {
        let (mut receiver, sender) = (channel.receiver().unwrap(), channel.sender().unwrap());
        let second = channel.sender().unwrap();
        assert_eq!(channel.sender().map(drop), Err(ConnectError::Taken));
        assert_eq!(channel.receiver().map(drop), Err(ConnectError::Taken));
        let began = AtomicBool::new(false);
        daiko::scope(|s| {
            let waiter = s.spawn(|| {
                began.store(true, Ordering::Relaxed);
                receiver.recv()
            });
            yield_until("a waiter", || began.load(Ordering::Relaxed));
            drop(sender);
            daiko::yield_now();
            assert!(!waiter.is_finished(), "there is another sender");
            drop(second);
            assert_eq!(waiter.join().unwrap(), Err(RecvError::Disconnected));
        });
        assert!(receiver.is_disconnected());
        let mut sender = channel.sender().unwrap();
        assert!(!receiver.is_disconnected() && !sender.is_disconnected());
        sender.send(1).unwrap();
        began.store(false, Ordering::Relaxed);
        daiko::scope(|s| {
            let waiter = s.spawn(|| {
                began.store(true, Ordering::Relaxed);
                sender.send(2)
            });
            yield_until("a waiter", || began.load(Ordering::Relaxed));
            drop(receiver);
            assert_eq!(waiter.join().unwrap(), Err(SendError::Disconnected));
        });
        assert_eq!(channel.receiver().unwrap().recv(), Ok(1));
    });
}

#[test]
fn a_receiver_that_is_cancelled_leaves_the_messages() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let channel = channel(&segment, 8, 1);
    let (mut sender, mut receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
    let runtime = workers(1);
    let began = Arc::new(AtomicBool::new(false));
    let begins = began.clone();
    let waiter = runtime.spawn(move || {
        begins.store(true, Ordering::Relaxed);
        let _ = receiver.recv();
    });
    until("a waiter", || began.load(Ordering::Relaxed));
    waiter.cancel();
    assert!(waiter.join().is_err());
    // The unwinding freed its end.
    let mut receiver = channel.receiver().unwrap();
    sender.send(1).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
}

#[test]
fn the_writes_of_a_hostile_peer_are_errors() {
    for (at, word) in [(0, u64::MAX), (0, 1 << 40), (128, u64::MAX), (128, 5), (0, 1), (8, 1)] {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let channel = channel(&segment, 4, 1);
        let (mut sender, mut receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
        sender.send(1).unwrap();
        let object = raw_object(&segment, "channel");
        object.at::<AtomicU64>(LANE + at).store(word, Ordering::Relaxed);
        for _ in 0..8 {
            let _ = receiver.try_recv();
            let _ = sender.try_send(1);
            let _ = (receiver.recv_timeout(Duration::ZERO), sender.send_timeout(1, Duration::ZERO));
        }
        drop((sender, receiver));
        let _ = (channel.sender(), channel.receiver());
    }
    // The same holds for the segment's entry by which the channel is found.
    let segment = Segment::anonymous(1 << 20).unwrap();
    channel(&segment, 4, 1);
    let other = Channel::<[u32; 2]>::open(&segment, "channel").map(drop).unwrap_err();
    assert!(matches!(other, SegmentError::Other { differs: "type", .. }));
}

#[test]
fn a_channel_of_no_size_is_refused() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    for options in [
        Channel::options().capacity(0),
        Channel::options().capacity((1 << 20) + 1),
        Channel::options().capacity(u32::MAX),
        Channel::options().senders(0),
        Channel::options().senders(257),
    ] {
        let error = Channel::<u64>::create(&segment, "channel", options).unwrap_err();
        assert!(matches!(error, SegmentError::Impossible { .. }), "{error:?}");
        assert_names(&error, "choose 1 to 1048576 messages");
    }
    let large = Channel::options().capacity(1 << 20).senders(256);
    let error = Channel::<[u64; 1 << 20]>::create(&segment, "channel", large).unwrap_err();
    assert_names(&error, "create it larger");
}

#[test]
fn errors_name_the_remedy_in_one_line() {
    assert_names(&ConnectError::Taken, "end a process that has one");
    assert_names(&ConnectError::Corrupt, "create it anew");
    let (send, recv) = (SendError::Disconnected, RecvError::Disconnected);
    assert_names(&send, "start its receiver");
    assert_names(&recv, "start its senders");
    assert_names(&SendError::Full, "wait");
    assert_names(&RecvError::Empty, "wait");
    assert_names(&SendError::TimedOut, "receiver");
    assert_names(&RecvError::TimedOut, "senders");
    for corrupt in [SendError::Corrupt, SendError::Truncated] {
        assert_names(&corrupt, "create it anew");
    }
    for corrupt in [RecvError::Corrupt, RecvError::Truncated] {
        assert_names(&corrupt, "create it anew");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(u16),
    Receive,
    /// Leaves the sender's end, and takes it again.
    NextSender,
    NextReceiver,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u16>().prop_map(Step::Send),
        4 => Just(Step::Receive),
        1 => Just(Step::NextSender),
        1 => Just(Step::NextReceiver),
    ]
}

type Message = [u16; 5];

proptest! {
    #[test]
    fn a_channel_is_a_queue(steps in prop::collection::vec(step(), 0..200)) {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let options = Channel::options().capacity(3);
        let channel = Channel::<Message>::create(&segment, "queue", options).unwrap();
        prop_assert_eq!(channel.capacity(), 4);
        let (sender, receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
        let (mut sender, mut receiver): (Option<Sender<_>>, Option<Receiver<_>>) =
            (Some(sender), Some(receiver));
        let mut queue = VecDeque::new();
        for step in steps {
            match step {
                Step::Send(number) => {
                    let expected = if queue.len() < 4 { Ok(()) } else { Err(SendError::Full) };
                    let message = [number, 1, 2, 3, !number];
                    prop_assert_eq!(sender.as_mut().unwrap().try_send(message), expected);
                    queue.extend(expected.map(|()| message));
                }
                Step::Receive => {
                    let expected = queue.pop_front().ok_or(RecvError::Empty);
                    prop_assert_eq!(receiver.as_mut().unwrap().try_recv(), expected);
                }
                Step::NextSender => {
                    sender = None;
                    prop_assert!(sender.is_none());
                    sender = Some(channel.sender().unwrap());
                }
                Step::NextReceiver => {
                    receiver = None;
                    prop_assert!(receiver.is_none());
                    receiver = Some(channel.receiver().unwrap());
                }
            }
        }
    }
}
