use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use daiko::shm::{Channel, Event, RecvError, Segment};
use daiko::{select, sync};

use crate::place::{LONG, Place, SHORT, rest, theirs};
use crate::support::child::is_child;
use crate::support::{panic_of, workers, yield_until};

fn channel(segment: &Segment) -> Channel<u64> {
    Channel::open_or_create(segment, "channel", Channel::options().capacity(2)).unwrap()
}

#[test]
fn a_select_waits_for_messages_an_event_and_a_death_of_another_process() {
    const NAME: &str =
        "select::a_select_waits_for_messages_an_event_and_a_death_of_another_process";
    const MESSAGES: u64 = 2_000;
    if is_child() {
        let segment = theirs();
        let (mut sender, half) =
            (channel(&segment).sender().unwrap(), Event::open(&segment, "half").unwrap());
        workers(1).run(move || {
            for message in 0..MESSAGES {
                if message == MESSAGES / 2 {
                    half.set();
                }
                sender.send(message).unwrap();
            }
            rest(&segment, "sent");
        });
        return;
    }
    let place = Place::new("select");
    let mut receiver = channel(&place.segment).receiver().unwrap();
    let (half, sent) = (place.event("half"), place.event("sent"));
    let mut child = Some(place.child(NAME));
    workers(2).run(move || {
        let (mut received, mut events) = (0, [false; 2]);
        let local = sync::Event::manual();
        let end = loop {
            select! {
                recv(receiver) -> message => match message {
                    Ok(message) => { assert_eq!(message, received); received += 1; }
                    Err(error) => break error,
                },
                wait(half) => { assert!(half.reset()); events[0] = true; }
                wait(sent) => {
                    assert!(sent.reset());
                    events[1] = true;
                    // Kills it.
                    drop(child.take());
                }
                wait(local) => panic!("it is not set"),
            }
        };
        assert_eq!((received, events, end), (MESSAGES, [true; 2], RecvError::Disconnected));
    });
}

#[test]
fn a_select_of_an_event_that_is_taken_back_goes_on_and_others_wait() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let [taken_back, other] = ["one", "other"].map(|name| Event::create(&segment, name).unwrap());
    workers(1).run(move || {
        let waits = AtomicBool::new(false);
        daiko::scope(|s| {
            let waiter = s.spawn(|| {
                waits.store(true, Ordering::Relaxed);
                select! {
                    wait(taken_back) => true,
                    wait(other) => false,
                    default(LONG) => false,
                }
            });
            yield_until("a waiter", || waits.load(Ordering::Relaxed));
            taken_back.set();
            assert!(taken_back.reset());
            assert!(waiter.join().unwrap());
            select! {
                wait(taken_back) => panic!("it was taken back"),
                wait(other) => panic!("it was not set"),
                default(SHORT) => {}
            }
        });
    });
}

#[test]
fn objects_of_segments_race_with_events_of_the_process() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let shared = Event::create(&segment, "event").unwrap();
    let channel = channel(&segment);
    let (mut sender, mut receiver) = (channel.sender().unwrap(), channel.receiver().unwrap());
    let local = sync::Event::auto();
    const ROUNDS: u64 = 3_000;
    workers(2).run(move || {
        daiko::scope(|s| {
            let sends = s.spawn(|| (0..ROUNDS).for_each(|round| sender.send(round).unwrap()));
            let sets = s.spawn(|| {
                for _ in 0..ROUNDS {
                    shared.set();
                    local.set();
                    daiko::yield_now();
                }
            });
            let mut received = 0;
            while received < ROUNDS {
                select! {
                    recv(receiver) -> message => {
                        assert_eq!(message, Ok(received));
                        received += 1;
                    }
                    wait(shared) => { shared.reset(); }
                    wait(local) => {}
                    default(Duration::from_micros(received % 3)) => {}
                }
            }
            sends.join().unwrap();
            sets.join().unwrap();
        });
    });
}

#[test]
fn a_thread_that_would_wait_for_an_object_of_a_segment_in_a_select_panics() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let event = Event::create(&segment, "event").unwrap();
    let message = panic_of(|| select! { wait(event) => {} });
    assert!(message.contains("for fibers"), "{message}");
    event.set();
    select! { wait(event) => {} }
}
