use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use daiko::shm::{Segment, SegmentError, Semaphore};
use daiko::sync::TimedOut;
use daiko_core::robust;
use proptest::prelude::*;

use crate::place::{
    LONG, Place, SHORT, let_them_sleep, raw_object, rest, theirs, until_a_waiter_listens,
};
use crate::support::child::is_child;
use crate::support::{assert_names, until, workers, yield_until};

fn semaphore(segment: &Segment, permits: u32) -> Semaphore {
    Semaphore::open_or_create(segment, "semaphore", permits).unwrap()
}

#[test]
fn no_more_than_there_are_permits_are_inside_in_all_processes() {
    const NAME: &str = "semaphore::no_more_than_there_are_permits_are_inside_in_all_processes";
    const EACH: usize = 1000;
    fn work(segment: &Segment) {
        let semaphore = semaphore(segment, 3);
        let runtime = workers(2);
        let fibers: Vec<_> = (0..4)
            .map(|_| {
                let (semaphore, segment) = (semaphore.clone(), segment.clone());
                runtime.spawn(move || {
                    let object = raw_object(&segment, "inside");
                    let inside = object.at::<AtomicU32>(0);
                    for at in 0..EACH {
                        let _permit = semaphore.acquire();
                        assert!(inside.fetch_add(1, Ordering::Relaxed) < 3);
                        if at % 4 == 0 {
                            daiko::yield_now();
                        }
                        inside.fetch_sub(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    }
    if is_child() {
        return work(&theirs());
    }
    let place = Place::new("semaphore");
    // An event is a line of zeros, which serves as a counter.
    place.event("inside");
    let mut child = place.child(NAME);
    work(&place.segment);
    child.ends_well();
    assert_eq!(semaphore(&place.segment, 3).available_permits(), 3);
}

#[test]
fn permits_of_a_killed_process_go_to_waiters() {
    const NAME: &str = "semaphore::permits_of_a_killed_process_go_to_waiters";
    if is_child() {
        let segment = theirs();
        let semaphore = semaphore(&segment, 3);
        let _permits = [(); 3].map(|()| semaphore.acquire());
        rest(&segment, "held");
    }
    let place = Place::new("killed");
    let semaphore = semaphore(&place.segment, 3);
    let child = place.child(NAME);
    place.event("held").wait();
    assert!(semaphore.try_acquire().is_none());
    assert_eq!(semaphore.available_permits(), 0);
    let (runtime, began) = (workers(1), AtomicUsize::new(0));
    // All three wait at the same time: no waiter waits for the permit of another.
    let waits = || {
        began.fetch_add(1, Ordering::Relaxed);
        semaphore.acquire_timeout(LONG).map(std::mem::forget)
    };
    runtime.scope(|fibers| {
        thread::scope(|threads| {
            let [one, two] = [(); 2].map(|()| fibers.spawn(waits));
            let three = threads.spawn(waits);
            until("the waiters", || began.load(Ordering::Relaxed) == 3);
            child.kill();
            let all = [one.join().unwrap(), two.join().unwrap(), three.join().unwrap()];
            assert_eq!(all, [Ok(()); 3]);
        });
    });
}

#[test]
fn a_process_that_comes_late_and_dies_before_it_rings_keeps_no_waiter() {
    const NAME: &str =
        "semaphore::a_process_that_comes_late_and_dies_before_it_rings_keeps_no_waiter";
    if is_child() {
        let segment = theirs();
        let object = raw_object(&segment, "semaphore");
        let (words, permits) = (object.at::<robust::RobustSemaphore>(0), object.slice(128, 1));
        let_them_sleep();
        assert!(words.add(permits, 0));
        std::process::abort();
    }
    let place = Place::new("unrung");
    let semaphore = semaphore(&place.segment, 1);
    assert_eq!(semaphore.acquire().forget(), 0);
    let waiter = {
        let semaphore = semaphore.clone();
        thread::spawn(move || semaphore.acquire_timeout(LONG).map(drop))
    };
    until_a_waiter_listens(&place.segment, "semaphore", 8);
    let _child = place.child(NAME);
    assert_eq!(waiter.join().unwrap(), Ok(()));
}

#[test]
fn a_permit_goes_to_another_process_by_its_number() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let other = segment.as_fd(Segment::from_fd).unwrap();
    let (here, there) = (semaphore(&segment, 2), semaphore(&other, 2));
    let number = here.acquire().forget();
    assert_eq!(here.available_permits(), 1);
    let adopted = there.adopt(number).unwrap();
    assert!(there.adopt(number).is_none() && !here.add_permit(number), "it is had");
    assert!(here.adopt(1 - number).is_none() && !here.add_permit(1 - number), "it is free");
    assert!(here.adopt(2).is_none() && !here.add_permit(u32::MAX), "there is none");
    let number = adopted.forget();
    let waiter = thread::spawn(move || {
        let _both = [here.acquire(), here.acquire()];
    });
    assert!(there.add_permit(number) && !there.add_permit(number));
    waiter.join().unwrap();
    assert_eq!(there.available_permits(), 2);
}

#[test]
fn waits_end_at_their_deadlines() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let waits = move || {
        let semaphore = semaphore(&segment, 1);
        let permit = semaphore.acquire();
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(semaphore.acquire_timeout(timeout).map(drop), Err(TimedOut));
            let deadline = Instant::now() + timeout;
            assert_eq!(semaphore.acquire_timeout(deadline).map(drop), Err(TimedOut));
        }
        drop(permit);
        assert_eq!(semaphore.acquire_timeout(Duration::ZERO).map(drop), Ok(()));
    };
    waits();
    workers(1).run(waits);
}

#[test]
fn a_waiter_that_is_cancelled_leaves_the_permit_to_others() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let semaphore = semaphore(&segment, 1);
    workers(1).run(move || {
        let permit = semaphore.acquire();
        let (began, goes) = (AtomicUsize::new(0), AtomicBool::new(false));
        daiko::scope(|s| {
            let waits = || {
                began.fetch_add(1, Ordering::Relaxed);
                drop(semaphore.acquire());
                goes.store(true, Ordering::Relaxed);
            };
            let [first, second] = [(); 2].map(|()| s.spawn(waits));
            yield_until("two waiters", || began.load(Ordering::Relaxed) == 2);
            first.cancel();
            assert!(first.join().is_err() && !goes.load(Ordering::Relaxed));
            drop(permit);
            second.join().unwrap();
        });
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn a_semaphore_of_no_permits_is_refused() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    for permits in [0, Semaphore::MAX_PERMITS + 1] {
        for made in [
            Semaphore::create(&segment, "semaphore", permits),
            Semaphore::open_or_create(&segment, "semaphore", permits),
        ] {
            let error = made.map(drop).unwrap_err();
            assert!(matches!(error, SegmentError::Impossible { .. }), "{error:?}");
            assert_names(&error, "choose 1 to 65536 permits");
        }
    }
    semaphore(&segment, 5);
    let error = daiko::shm::Mutex::<u64>::open(&segment, "semaphore").map(drop).unwrap_err();
    assert!(matches!(error, SegmentError::Other { differs: "kind", .. }));
    assert_names(&error, "another name");
    assert_eq!(semaphore(&segment, 7).permits_in_all(), 5);
}

proptest! {
    /// Uses two attachments. One of them dies now and then, as far as the other can tell.
    #[test]
    fn permits_are_neither_lost_nor_made(steps in prop::collection::vec(0u8..8, 0..200)) {
        const PERMITS: usize = 4;
        let segment = Segment::anonymous(1 << 20).unwrap();
        let mine = Semaphore::create(&segment, "semaphore", PERMITS as u32).unwrap();
        let attach = || semaphore(&segment.as_fd(Segment::from_fd).unwrap(), 1);
        let (mut theirs, mut have, mut theirs_have) = (attach(), Vec::new(), 0);
        let mut free = PERMITS;
        for step in steps {
            let is_free = free > 0;
            match step {
                0..=2 => {
                    let permit = mine.try_acquire();
                    prop_assert_eq!(permit.is_some(), is_free);
                    free -= usize::from(is_free);
                    have.extend(permit);
                }
                3..=4 => free += usize::from(have.pop().is_some()),
                5..=6 => {
                    let permit = theirs.try_acquire();
                    prop_assert_eq!(permit.is_some(), is_free);
                    free -= usize::from(is_free);
                    theirs_have += usize::from(is_free);
                    std::mem::forget(permit);
                }
                _ => {
                    drop(std::mem::replace(&mut theirs, attach()));
                    free += std::mem::take(&mut theirs_have);
                }
            }
            prop_assert_eq!(mine.available_permits() as usize, free);
        }
    }
}
