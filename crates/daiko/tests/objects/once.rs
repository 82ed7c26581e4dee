use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use daiko::shm::{Cause, Once, Segment, Words};
use daiko::sync::TimedOut;

use crate::place::{LONG, Place, SHORT, rest, theirs};
use crate::support::child::is_child;
use crate::support::{panic_of, workers, yield_until};

fn once(segment: &Segment) -> Once {
    Once::open_or_create(segment, "once").unwrap()
}

#[test]
fn of_all_callers_in_all_processes_one_runs_its_closure() {
    const NAME: &str = "once::of_all_callers_in_all_processes_one_runs_its_closure";
    const ROUNDS: u32 = 100;
    fn call(segment: &Segment) {
        let runs = Words::<AtomicU64>::open_or_create(segment, "runs", ROUNDS).unwrap();
        let runtime = workers(2);
        runtime.scope(|fibers| {
            for _ in 0..3 {
                fibers.spawn(|| {
                    for (round, runs) in runs.iter().enumerate() {
                        let once = Once::open_or_create(segment, &round.to_string()).unwrap();
                        once.call_once(|| {
                            let before = runs.load(Ordering::Relaxed);
                            daiko::yield_now();
                            runs.store(before + 1, Ordering::Relaxed);
                        });
                        assert!(once.is_completed());
                        assert_eq!(runs.load(Ordering::Relaxed), 1, "its effects are visible");
                    }
                });
            }
        });
    }
    if is_child() {
        return call(&theirs());
    }
    let place = Place::new("once");
    let mut child = place.child(NAME);
    call(&place.segment);
    child.ends_well();
}

#[test]
fn the_next_caller_takes_over_from_a_killed_one() {
    const NAME: &str = "once::the_next_caller_takes_over_from_a_killed_one";
    if is_child() {
        once(&theirs()).call_once(|| rest(&theirs(), "running"));
    }
    let place = Place::new("killed");
    let (once, child) = (once(&place.segment), place.child(NAME));
    place.event("running").wait();
    let late = once.call_once_force_timeout(SHORT, |_| panic!("another process runs it"));
    assert_eq!(late, Err(TimedOut));
    let runs = AtomicUsize::new(0);
    let calls = || {
        let called = once.call_once_force_timeout(LONG, |state| {
            assert_eq!(state.cause(), Some(Cause::OwnerDied));
            runs.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(called, Ok(()));
    };
    let runtime = workers(1);
    runtime.scope(|fibers| {
        thread::scope(|threads| {
            (0..2).for_each(|_| _ = fibers.spawn(calls));
            threads.spawn(calls);
            thread::sleep(SHORT);
            assert!(!once.is_completed());
            child.kill();
        });
    });
    assert_eq!(runs.into_inner(), 1);
    once.call_once(|| panic!("it has completed"));
}

#[test]
fn a_panic_and_a_cancel_leave_the_closure_to_the_next_caller() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let once = once(&segment);
    workers(1).run(move || {
        let runs = AtomicBool::new(false);
        daiko::scope(|s| {
            let cancelled = s.spawn(|| {
                once.call_once(|| {
                    runs.store(true, Ordering::Relaxed);
                    daiko::time::sleep(LONG);
                });
            });
            yield_until("it sleeps", || runs.load(Ordering::Relaxed));
            let late = once.call_once_force_timeout(Duration::ZERO, |_| ());
            assert_eq!(late, Err(TimedOut));
            cancelled.cancel();
            assert!(cancelled.join().is_err() && !once.is_completed());
        });
        let message = panic_of(|| {
            once.call_once_force(|state| {
                assert_eq!(state.cause(), None);
                panic!("half done");
            });
        });
        assert_eq!(message, "half done");
        assert!(!once.is_completed());
        once.call_once_force(|state| assert_eq!(state.cause(), Some(Cause::Poisoned)));
        assert!(once.is_completed());
        once.call_once(|| panic!("it has completed"));
    });
}
