use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use daiko::shm::{Event, Segment};
use daiko::sync::TimedOut;
use daiko_core::robust;

use crate::place::{
    LONG, Place, SHORT, let_them_sleep, raw_object, rest, theirs, until_a_waiter_listens,
};
use crate::support::child::is_child;
use crate::support::{assert_names, workers, yield_until};

/// The offset of the listeners of an event.
const LISTENERS: usize = 8;

#[test]
fn a_set_in_another_process_lets_fibers_and_threads_go() {
    const NAME: &str = "event::a_set_in_another_process_lets_fibers_and_threads_go";
    if is_child() {
        let segment = theirs();
        Event::open(&segment, "go").unwrap().wait();
        rest(&segment, "gone");
    }
    let place = Place::new("event");
    let (go, gone) = (place.event("go"), place.event("gone"));
    let _child = place.child(NAME);
    let runtime = workers(2);
    let fibers: Vec<_> = (0..100)
        .map(|_| {
            let gone = gone.clone();
            runtime.spawn(move || gone.wait())
        })
        .collect();
    let thread = {
        let gone = gone.clone();
        thread::spawn(move || gone.wait_timeout(LONG))
    };
    go.set();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert_eq!(thread.join().unwrap(), Ok(()));
}

#[test]
fn a_set_that_is_taken_back_at_once_lets_waiters_go() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let event = Event::create(&segment, "event").unwrap();
    workers(1).run(move || {
        let waits = AtomicBool::new(false);
        daiko::scope(|s| {
            let waiter = s.spawn(|| {
                waits.store(true, Ordering::Relaxed);
                event.wait_timeout(LONG)
            });
            // The waiter runs on the same worker, which continues here once the waiter has
            // suspended.
            yield_until("a waiter", || waits.load(Ordering::Relaxed));
            event.set();
            assert!(event.reset() && !event.is_set());
            assert_eq!(waiter.join().unwrap(), Ok(()));
            assert_eq!(event.wait_timeout(SHORT), Err(TimedOut));
        });
    });
}

#[test]
fn a_setter_that_dies_before_it_rings_lets_earlier_waiters_go() {
    const NAME: &str = "event::a_setter_that_dies_before_it_rings_lets_earlier_waiters_go";
    if is_child() {
        let object = raw_object(&theirs(), "event");
        // The arrival of this process has rung the waiters.
        let_them_sleep();
        object.at::<robust::RobustEvent>(0).set();
        std::process::abort();
    }
    let place = Place::new("unrung");
    let event = place.event("event");
    let runtime = workers(1);
    let fiber = {
        let event = event.clone();
        runtime.spawn(move || event.wait_timeout(LONG))
    };
    let thread = {
        let event = event.clone();
        thread::spawn(move || event.wait_timeout(LONG))
    };
    until_a_waiter_listens(&place.segment, "event", LISTENERS);
    let _child = place.child(NAME);
    assert_eq!((fiber.join().unwrap(), thread.join().unwrap()), (Ok(()), Ok(())));
}

#[test]
fn waits_end_at_their_deadlines() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let event = Event::create(&segment, "event").unwrap();
    let waits = move || {
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(event.wait_timeout(timeout), Err(TimedOut));
            assert_eq!(event.wait_timeout(Instant::now() + timeout), Err(TimedOut));
        }
        event.set();
        assert_eq!(event.wait_timeout(Duration::ZERO), Ok(()));
        assert!(event.reset());
    };
    waits();
    workers(1).run(waits);
}

#[test]
fn an_object_keeps_the_kind_that_it_was_made_with() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    assert_names(
        &Event::open(&segment, "event").unwrap_err(),
        "start the program that creates it first",
    );
    Event::create(&segment, "event").unwrap();
    assert_names(&Event::create(&segment, "event").unwrap_err(), "open it instead");
    Event::open_or_create(&segment, "event").unwrap();
}
