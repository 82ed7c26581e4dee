//! Processes that are stopped: a process that needs nothing of theirs runs on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use daiko::shm::Semaphore;
use daiko::sync::TimedOut;

use crate::place::{LONG, Place, SHORT, let_them_sleep, rest, theirs};
use crate::support::child::is_child;
use crate::support::{until, workers};

#[test]
fn a_permit_of_a_stopped_process_is_missed_only_by_its_waiters() {
    const NAME: &str = "stopped::a_permit_of_a_stopped_process_is_missed_only_by_its_waiters";
    const TURNS: usize = 1000;
    if is_child() {
        let segment = theirs();
        let semaphore = Semaphore::open(&segment, "semaphore").unwrap();
        let permit = semaphore.acquire();
        daiko::shm::Event::open_or_create(&segment, "held").unwrap().set();
        daiko::shm::Event::open_or_create(&segment, "enough").unwrap().wait();
        drop(permit);
        rest(&segment, "given back");
    }
    let place = Place::new("stopped");
    let semaphore = Semaphore::create(&place.segment, "semaphore", 2).unwrap();
    let (enough, given_back) = (place.event("enough"), place.event("given back"));
    let child = place.child(NAME);
    place.event("held").wait();
    child.stop();
    let (runtime, turns) = (workers(1), AtomicUsize::new(0));
    let take_turns = || {
        for _ in 0..TURNS {
            drop(semaphore.acquire_timeout(LONG).unwrap());
            turns.fetch_add(1, Ordering::Relaxed);
        }
    };
    runtime.scope(|fibers| {
        thread::scope(|threads| {
            fibers.spawn(take_turns);
            threads.spawn(take_turns);
            until("all turns", || turns.load(Ordering::Relaxed) == 2 * TURNS);
            let _other = semaphore.acquire();
            assert_eq!(semaphore.acquire_timeout(SHORT).map(drop), Err(TimedOut));
            let waits = fibers.spawn(|| semaphore.acquire_timeout(LONG).map(drop));
            enough.set();
            let_them_sleep();
            assert!(!given_back.is_set() && semaphore.try_acquire().is_none());
            child.go_on();
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
    });
    given_back.wait();
    assert_eq!(semaphore.available_permits(), 2);
}
