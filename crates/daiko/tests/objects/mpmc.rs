use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use daiko::select;
use daiko::shm::{
    Channel, ConnectError, MpmcChannel, MpmcReceiver, MpmcSender, RecvError, Segment, SegmentError,
    SendError, Words,
};
use proptest::prelude::*;

use crate::place::{
    LONG, Place, SHORT, let_them_sleep, rest, role, theirs, until_a_waiter_listens,
};
use crate::support::child::is_child;
use crate::support::{assert_names, until, workers, yield_until};

fn channel(segment: &Segment, capacity: u32) -> MpmcChannel<u64> {
    let options = MpmcChannel::options().capacity(capacity).senders(4).receivers(4);
    MpmcChannel::open_or_create(segment, "channel", options).unwrap()
}

/// Receives from the senders that have come, or are yet to come; `None`: the test is over.
fn receive(receiver: &MpmcReceiver<u64>, over: impl Fn() -> bool) -> Option<u64> {
    loop {
        match receiver.recv_timeout(LONG) {
            Err(RecvError::Disconnected) if over() => return None,
            Err(RecvError::Disconnected) => thread::yield_now(),
            received => return Some(received.unwrap()),
        }
    }
}

#[test]
fn each_message_goes_to_one_receiver_of_one_process() {
    const NAME: &str = "mpmc::each_message_goes_to_one_receiver_of_one_process";
    const SENDERS: usize = 3;
    const EACH: u64 = 4_000;
    const ALL: usize = 2 * SENDERS;
    /// Sends, and receives, in each of two processes.
    fn exchange(segment: &Segment, first: u64) {
        let channel = channel(segment, 4);
        // A count for each message, and that of all messages.
        let counts = ALL as u32 * EACH as u32 + 1;
        let counts = Words::<AtomicU64>::open_or_create(segment, "counts", counts).unwrap();
        let (each, all) = counts.split_at(counts.len() - 1);
        let is_over = || all[0].load(Ordering::Relaxed) == each.len() as u64;
        let send = |sender: MpmcSender<u64>, who: u64| {
            (0..EACH).for_each(|i| sender.send(who * EACH + i).unwrap());
        };
        let receives = |receiver: MpmcReceiver<u64>| {
            // Messages of one sender come in order, though some go to other receivers.
            let mut next = [0; ALL];
            while let Some(message) = receive(&receiver, is_over) {
                let (who, number) = ((message / EACH) as usize, message % EACH);
                assert!(number >= next[who]);
                next[who] = number + 1;
                each[message as usize].fetch_add(1, Ordering::Relaxed);
                all[0].fetch_add(1, Ordering::Relaxed);
            }
        };
        let (sender, receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
        let (runtime, send, receives) = (workers(2), &send, &receives);
        runtime.scope(|fibers| {
            thread::scope(|threads| {
                for who in 1..SENDERS as u64 {
                    let (sender, receiver) = (sender.clone(), receiver.clone());
                    fibers.spawn(move || send(sender, first + who));
                    fibers.spawn(move || receives(receiver));
                }
                threads.spawn(move || send(sender, first));
                threads.spawn(move || receives(receiver));
            });
        });
        assert!(each.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
    if is_child() {
        return exchange(&theirs(), SENDERS as u64);
    }
    let place = Place::new("mpmc");
    let mut child = place.child(NAME);
    exchange(&place.segment, 0);
    child.ends_well();
}

#[test]
fn the_messages_of_a_killed_process_arrive_and_then_its_end() {
    const NAME: &str = "mpmc::the_messages_of_a_killed_process_arrive_and_then_its_end";
    if is_child() {
        let segment = theirs();
        let sender = channel(&segment, 64).sender().unwrap();
        (0..10).for_each(|i| sender.send(i).unwrap());
        rest(&segment, "sent");
    }
    let place = Place::new("sender");
    let receiver = channel(&place.segment, 64).receiver().unwrap();
    for _ in 0..2 {
        let (sent, child) = (place.event("sent"), place.child(NAME));
        sent.wait();
        assert!(sent.reset());
        let first = [receiver.recv().unwrap(), receiver.recv().unwrap()];
        assert_eq!(first, [0, 1]);
        let received = AtomicUsize::new(0);
        let waits = || received.fetch_add(receiver.iter().count(), Ordering::Relaxed);
        let runtime = workers(1);
        runtime.scope(|fibers| {
            thread::scope(|threads| {
                (0..2).for_each(|_| _ = fibers.spawn(waits));
                threads.spawn(waits);
                child.kill();
            });
        });
        assert_eq!(received.into_inner(), 8);
    }
}

#[test]
fn senders_learn_that_the_last_receiver_was_killed() {
    const NAME: &str = "mpmc::senders_learn_that_the_last_receiver_was_killed";
    if is_child() {
        let segment = theirs();
        let receiver = channel(&segment, 2).receiver().unwrap();
        receiver.recv().unwrap();
        rest(&segment, &role());
    }
    let place = Place::new("receiver");
    let sender = channel(&place.segment, 2).sender().unwrap();
    // There was no receiver yet.
    (1..=2).for_each(|message| sender.send(message).unwrap());
    let names = ["one", "other"];
    let children = names.map(|name| place.child_as(NAME, name));
    sender.send_timeout(3, LONG).unwrap();
    names.iter().for_each(|name| place.event(name).wait());
    sender.send(4).unwrap();
    let waiting = thread::spawn({
        let sender = sender.clone();
        move || sender.send_timeout(5, LONG)
    });
    let_them_sleep();
    let [one, other] = children;
    one.kill();
    let_them_sleep();
    assert!(!sender.is_disconnected());
    other.kill();
    assert_eq!(waiting.join().unwrap(), Err(SendError::Disconnected));
    until("its end", || sender.is_disconnected());
    // The next receiver gets the messages that they have left.
    let receiver = channel(&place.segment, 2).receiver().unwrap();
    assert_eq!([receiver.recv(), receiver.recv()], [Ok(3), Ok(4)]);
    assert_eq!((receiver.try_recv(), sender.try_send(6)), (Err(RecvError::Empty), Ok(())));
}

#[test]
fn a_stopped_sender_keeps_no_other_from_sending() {
    const NAME: &str = "mpmc::a_stopped_sender_keeps_no_other_from_sending";
    if is_child() {
        let sender = channel(&theirs(), 2).sender().unwrap();
        // Until it is stopped, somewhere.
        while sender.send(0).is_ok() {}
        return;
    }
    let place = Place::new("stopped");
    let channel = channel(&place.segment, 2);
    let (sender, receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
    let child = place.child(NAME);
    for round in 1..50 {
        assert_eq!(receiver.recv_timeout(LONG), Ok(0));
        child.stop();
        sender.send(round).unwrap();
        until("its message", || receiver.recv_timeout(LONG).unwrap() == round);
        child.go_on();
    }
}

#[test]
fn ends_are_given_to_as_many_processes_as_there_are_places() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let options = MpmcChannel::options().senders(1).receivers(1);
    let here = MpmcChannel::<u64>::create(&segment, "channel", options).unwrap();
    let other = segment.as_fd(Segment::from_fd).unwrap();
    let there = MpmcChannel::<u64>::open(&other, "channel").unwrap();
    let (sender, receiver) = (here.sender().unwrap(), here.receiver().unwrap());
    // Any number in one process.
    let more = (here.sender().unwrap(), sender.clone(), here.receiver().unwrap());
    assert_eq!(there.sender().map(drop), Err(ConnectError::Taken));
    assert_eq!(there.receiver().map(drop), Err(ConnectError::Taken));
    drop((sender, receiver));
    assert_eq!(there.sender().map(drop), Err(ConnectError::Taken));
    assert!(!more.0.is_disconnected() && !more.2.is_disconnected());
    drop(more);
    let (sender, receiver) = (there.sender().unwrap(), there.receiver().unwrap());
    sender.send(5).unwrap();
    assert_eq!(receiver.recv(), Ok(5));
}

#[test]
fn waits_end_at_their_deadlines() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let waits = move || {
        let channel = channel(&segment, 1);
        let (sender, receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(receiver.recv_timeout(timeout), Err(RecvError::TimedOut));
            assert_eq!(receiver.recv_timeout(Instant::now() + timeout), Err(RecvError::TimedOut));
            sender.send_timeout(1, timeout).unwrap();
            assert_eq!(sender.send_timeout(2, timeout), Err(SendError::TimedOut));
            assert_eq!(sender.try_send(2), Err(SendError::Full));
            assert_eq!(receiver.recv_timeout(timeout), Ok(1));
        }
        drop(sender);
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvError::Disconnected));
    };
    waits();
    workers(1).run(waits);
}

#[test]
fn a_waiter_that_is_cancelled_leaves_the_message_to_others() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let channel = channel(&segment, 2);
    workers(1).run(move || {
        let (sender, receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
        let (began, received) = (AtomicUsize::new(0), AtomicBool::new(false));
        daiko::scope(|s| {
            let waits = || {
                began.fetch_add(1, Ordering::Relaxed);
                assert_eq!(receiver.recv(), Ok(7));
                received.store(true, Ordering::Relaxed);
            };
            let [first, second] = [(); 2].map(|()| s.spawn(waits));
            yield_until("two waiters", || began.load(Ordering::Relaxed) == 2);
            first.cancel();
            assert!(first.join().is_err() && !received.load(Ordering::Relaxed));
            sender.send(7).unwrap();
            second.join().unwrap();
        });
    });
}

#[test]
fn a_select_receives_from_several() {
    const ROUNDS: u64 = 2_000;
    let segment = Segment::anonymous(1 << 20).unwrap();
    let [one, other] = ["one", "other"].map(|name| {
        let options = MpmcChannel::options().capacity(2).senders(2);
        MpmcChannel::<u64>::create(&segment, name, options).unwrap()
    });
    let senders = [&one, &other].map(|channel| channel.sender().unwrap());
    let (mut one, mut other) = (one.receiver().unwrap(), other.receiver().unwrap());
    workers(2).run(move || {
        daiko::scope(|s| {
            for sender in senders {
                s.spawn(move || (0..ROUNDS).for_each(|i| sender.send(i).unwrap()));
            }
            let mut next = [0; 2];
            while next != [ROUNDS; 2] {
                let (at, received) = select! {
                    recv(one) -> received => (0, received),
                    recv(other) -> received => (1, received),
                };
                match received {
                    Ok(i) => assert_eq!(std::mem::replace(&mut next[at], i + 1), i),
                    // An end is possible at once, again and again.
                    Err(RecvError::Disconnected) if next[at] == ROUNDS => daiko::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
}

#[test]
fn channels_of_another_kind_or_type_or_of_no_size_are_refused() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let options = MpmcChannel::options();
    for options in [options.capacity(0), options.senders(0), options.receivers(257)] {
        let error = MpmcChannel::<u64>::create(&segment, "none", options).map(drop).unwrap_err();
        assert!(matches!(error, SegmentError::Impossible { .. }));
        assert_names(&error, "1 to 256 processes");
    }
    channel(&segment, 4);
    let differs = |error: SegmentError| match error {
        SegmentError::Other { differs, .. } => differs,
        error => panic!("{error}"),
    };
    let refused = MpmcChannel::<i64>::open(&segment, "channel").map(drop).unwrap_err();
    assert_eq!(differs(refused), "type");
    let refused = Channel::<u64>::open(&segment, "channel").map(drop).unwrap_err();
    assert_eq!(differs(refused), "kind");

    let options = options.message_bytes(5);
    let bytes = MpmcChannel::<[u8]>::create(&segment, "bytes", options).unwrap();
    let (sender, receiver) = (bytes.sender().unwrap(), bytes.receiver().unwrap());
    sender.send_ref(b"hello").unwrap();
    let mut received = [0; 5];
    receiver.recv_into(&mut received[..]).unwrap();
    assert_eq!((&received, bytes.message_bytes()), (b"hello", 5));
}

#[test]
fn a_receiver_that_waits_is_rung_for_by_a_process_that_comes_late() {
    const NAME: &str = "mpmc::a_receiver_that_waits_is_rung_for_by_a_process_that_comes_late";
    if is_child() {
        return channel(&theirs(), 2).sender().unwrap().send(3).unwrap();
    }
    let place = Place::new("late");
    let receiver = channel(&place.segment, 2).receiver().unwrap();
    let runtime = workers(1);
    let waiter = runtime.spawn(move || receiver.recv_timeout(LONG));
    until_a_waiter_listens(&place.segment, "channel", 0);
    place.child(NAME).ends_well();
    assert_eq!(waiter.join().unwrap(), Ok(3));
}

proptest! {
    /// A plain queue for each process is the oracle: a receiver of either process gets the first
    /// message of one of them.
    #[test]
    fn messages_are_neither_lost_nor_made(steps in prop::collection::vec(0u8..10, 0..200)) {
        const CAPACITY: usize = 4;
        let segment = Segment::anonymous(1 << 20).unwrap();
        let attach = || channel(&segment.as_fd(Segment::from_fd).unwrap(), CAPACITY as u32);
        let mine = attach();
        let (my_sender, my_receiver) = (mine.sender().unwrap(), mine.receiver().unwrap());
        let ends = |channel: MpmcChannel<u64>| {
            (channel.sender().unwrap(), channel.receiver().unwrap())
        };
        let mut theirs = ends(attach());
        let (mut queues, mut number) = ([VecDeque::new(), VecDeque::new()], 0);
        for step in steps {
            match step {
                0..=4 => {
                    let who = usize::from(step % 2);
                    number += 1;
                    let sent = [&my_sender, &theirs.0][who].try_send(number);
                    let has_room = queues[who].len() < CAPACITY;
                    prop_assert_eq!(sent, if has_room { Ok(()) } else { Err(SendError::Full) });
                    if has_room {
                        queues[who].push_back(number);
                    }
                }
                5..=8 => match [&my_receiver, &theirs.1][usize::from(step % 2)].try_recv() {
                    Ok(message) => {
                        let first = queues.iter_mut().find(|queue| queue.front() == Some(&message));
                        prop_assert!(first.is_some(), "{message}");
                        first.unwrap().pop_front();
                    }
                    Err(error) => {
                        prop_assert_eq!(error, RecvError::Empty);
                        prop_assert!(queues.iter().all(VecDeque::is_empty));
                    }
                },
                // A successor takes over the lane, with its messages.
                _ => {
                    drop(theirs);
                    theirs = ends(attach());
                }
            }
        }
    }
}
