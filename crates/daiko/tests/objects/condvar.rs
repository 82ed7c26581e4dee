use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use daiko::shm::{Cause, Condvar, Mutex, Segment};

use crate::place::{LONG, Place, SHORT, let_them_sleep, rest, theirs, until_a_waiter_listens};
use crate::support::child::is_child;
use crate::support::{until, workers, yield_until};

/// The offset of the listeners of a condition variable.
const LISTENERS: usize = 24;
/// Number of waiters with an entry of their own.
const ENTRIES: usize = 256;

#[derive(Clone)]
struct Jobs {
    left: Mutex<u64>,
    more: Condvar,
}

impl Jobs {
    fn of(segment: &Segment) -> Self {
        Jobs {
            left: Mutex::open_or_create(segment, "jobs", 0).unwrap(),
            more: Condvar::open_or_create(segment, "more").unwrap(),
        }
    }

    fn add(&self, jobs: u64) {
        *self.left.lock().unwrap() += jobs;
    }

    /// Takes a job; returns false if none came.
    fn take(&self, timeout: Duration) -> bool {
        let left = self.left.lock().unwrap();
        let waited = self.more.wait_timeout_while(left, timeout, |left| *left == 0);
        let (mut left, result) = waited.unwrap();
        assert_eq!(result.timed_out(), *left == 0);
        *left -= u64::from(*left > 0);
        !result.timed_out()
    }
}

#[test]
fn each_notification_of_a_process_wakes_a_waiter_of_another() {
    const NAME: &str = "condvar::each_notification_of_a_process_wakes_a_waiter_of_another";
    const EACH: usize = 3_000;
    fn take(segment: &Segment) {
        let (jobs, runtime) = (Jobs::of(segment), workers(2));
        runtime.scope(|fibers| {
            thread::scope(|threads| {
                let take = || (0..EACH).for_each(|_| assert!(jobs.take(LONG)));
                (0..2).for_each(|_| _ = fibers.spawn(take));
                threads.spawn(take);
            });
        });
    }
    if is_child() {
        return take(&theirs());
    }
    let place = Place::new("condvar");
    let (jobs, mut child) = (Jobs::of(&place.segment), place.child(NAME));
    thread::scope(|threads| {
        threads.spawn(|| take(&place.segment));
        for _ in 0..6 * EACH {
            jobs.add(1);
            jobs.more.notify_one();
        }
    });
    child.ends_well();
    assert_eq!(*jobs.left.lock().unwrap(), 0);
}

#[test]
fn a_notification_of_a_process_that_is_killed_before_it_wakes_goes_to_another_waiter() {
    const NAME: &str = "condvar::a_notification_of_a_process_that_is_killed_before_it_wakes_goes_to_another_waiter";
    if is_child() {
        let jobs = Jobs::of(&theirs());
        jobs.take(LONG);
        rest(&theirs(), "woken");
    }
    let place = Place::new("stopped");
    let (jobs, child) = (Jobs::of(&place.segment), place.child(NAME));
    until_a_waiter_listens(&place.segment, "more", LISTENERS);
    child.stop();
    let took = AtomicUsize::new(0);
    let waits = || {
        assert!(jobs.take(LONG));
        took.fetch_add(1, Ordering::Relaxed);
    };
    let runtime = workers(1);
    runtime.scope(|fibers| {
        thread::scope(|threads| {
            fibers.spawn(waits);
            threads.spawn(waits);
            let_them_sleep();
            jobs.add(1);
            // The child came first, and does not run.
            jobs.more.notify_one();
            let_them_sleep();
            assert_eq!(took.load(Ordering::Relaxed), 0);
            child.kill();
            until("a waiter has the job", || took.load(Ordering::Relaxed) == 1);
            jobs.add(1);
            jobs.more.notify_one();
        });
    });
    assert!(!place.event("woken").is_set());
}

#[test]
fn a_notifier_that_is_killed_before_it_notifies_keeps_no_waiter() {
    const NAME: &str = "condvar::a_notifier_that_is_killed_before_it_notifies_keeps_no_waiter";
    if is_child() {
        Jobs::of(&theirs()).add(1);
        rest(&theirs(), "added");
    }
    let place = Place::new("silent");
    let jobs = Jobs::of(&place.segment);
    let waiter = {
        let jobs = jobs.clone();
        thread::spawn(move || jobs.take(LONG))
    };
    until_a_waiter_listens(&place.segment, "more", LISTENERS);
    let child = place.child(NAME);
    place.event("added").wait();
    child.kill();
    assert!(waiter.join().unwrap());
}

#[test]
fn a_wait_reports_a_holder_that_died() {
    const NAME: &str = "condvar::a_wait_reports_a_holder_that_died";
    if is_child() {
        let jobs = Jobs::of(&theirs());
        let mut left = jobs.left.lock().unwrap();
        *left = 1;
        jobs.more.notify_all();
        rest(&theirs(), "held");
    }
    let place = Place::new("died");
    let jobs = Jobs::of(&place.segment);
    let runtime = workers(1);
    let waiter = {
        let jobs = jobs.clone();
        runtime.spawn(move || {
            let waited = jobs.more.wait_while(jobs.left.lock().unwrap(), |left| *left == 0);
            let error = waited.map(drop).unwrap_err();
            (error.cause(), *error.into_inner())
        })
    };
    until_a_waiter_listens(&place.segment, "more", LISTENERS);
    let child = place.child(NAME);
    place.event("held").wait();
    child.kill();
    // The dead process has not written its value back.
    assert_eq!(waiter.join().unwrap(), (Cause::OwnerDied, 0));
}

#[test]
fn one_notification_wakes_one_waiter_and_they_take_turns() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let jobs = Jobs::of(&segment);
    let (began, woken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    workers(1).scope(|fibers| {
        for _ in 0..3 {
            fibers.spawn(|| {
                let left = jobs.left.lock().unwrap();
                began.fetch_add(1, Ordering::Relaxed);
                drop(jobs.more.wait(left).unwrap());
                woken.fetch_add(1, Ordering::Relaxed);
            });
        }
        until("three waiters", || began.load(Ordering::Relaxed) == 3);
        // All of them have let go of the mutex.
        drop(jobs.left.lock().unwrap());
        for expected in 1..=3 {
            jobs.more.notify_one();
            until("a waiter", || woken.load(Ordering::Relaxed) == expected);
            let_them_sleep();
            assert_eq!(woken.load(Ordering::Relaxed), expected);
        }
    });
}

#[test]
fn waiters_beyond_the_entries_are_woken_as_well() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let jobs = Jobs::of(&segment);
    let waiters = ENTRIES + 44;
    let began = AtomicUsize::new(0);
    workers(2).scope(|fibers| {
        for _ in 0..waiters {
            fibers.spawn(|| {
                let mut left = jobs.left.lock().unwrap();
                began.fetch_add(1, Ordering::Relaxed);
                while *left == 0 {
                    left = jobs.more.wait(left).unwrap();
                }
                *left -= 1;
            });
        }
        until("the waiters", || began.load(Ordering::Relaxed) == waiters);
        for _ in 0..waiters {
            jobs.add(1);
            jobs.more.notify_one();
        }
    });
    assert_eq!(*jobs.left.lock().unwrap(), 0);
    // A broadcast, after all entries were used.
    let goes = AtomicUsize::new(0);
    workers(2).scope(|fibers| {
        for _ in 0..waiters {
            fibers.spawn(|| {
                let left = jobs.left.lock().unwrap();
                goes.fetch_add(1, Ordering::Relaxed);
                drop(jobs.more.wait_while(left, |left| *left == 0).unwrap());
            });
        }
        until("the waiters", || goes.load(Ordering::Relaxed) == waiters);
        jobs.add(1);
        jobs.more.notify_all();
    });
}

#[test]
fn waits_end_at_their_deadlines_with_the_guard() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let waits = move || {
        let jobs = Jobs::of(&segment);
        for timeout in [Duration::ZERO, SHORT] {
            assert!(!jobs.take(timeout));
            let left = jobs.left.lock().unwrap();
            let (left, result) = jobs.more.wait_timeout(left, Instant::now() + timeout).unwrap();
            assert!(result.timed_out() && jobs.left.try_lock().is_err());
            drop(left);
        }
        jobs.add(1);
        assert!(jobs.take(Duration::ZERO));
    };
    waits();
    workers(1).run(waits);
}

#[test]
fn a_cancelled_waiter_passes_its_notification_on() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let jobs = Jobs::of(&segment);
    workers(1).run(move || {
        let (began, woken) = (AtomicUsize::new(0), AtomicBool::new(false));
        daiko::scope(|s| {
            let waits = || {
                let left = jobs.left.lock().unwrap();
                began.fetch_add(1, Ordering::Relaxed);
                drop(jobs.more.wait(left).unwrap());
                woken.store(true, Ordering::Relaxed);
            };
            let [first, second] = [(); 2].map(|()| s.spawn(waits));
            yield_until("two waiters", || began.load(Ordering::Relaxed) == 2);
            let held = jobs.left.lock().unwrap();
            jobs.more.notify_one();
            // It is notified, and waits for the mutex or is about to.
            first.cancel();
            drop(held);
            assert!(first.join().is_err() && second.join().is_ok());
            assert!(woken.load(Ordering::Relaxed));
        });
    });
}
