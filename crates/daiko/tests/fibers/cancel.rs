//! Cancelling: a fiber unwinds once, wherever it is suspended, and disturbs no other fiber.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use std::{panic, thread};

use crate::support::{Drops, OnDrop, end, migratable, until, workers, yield_until};
use daiko::{Builder, Cancelled, JoinError, JoinHandle, Runtime, cancel};

fn assert_cancelled<T>(handle: JoinHandle<T>) {
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
}

/// Runs `check` for a pinned fiber and for a migratable fiber, with one worker and with two.
fn for_all(check: impl Fn(&Runtime, fn() -> Builder)) {
    for count in 1..=2 {
        for builder in [Builder::new as fn() -> Builder, migratable] {
            let runtime = workers(count);
            check(&runtime, builder);
            end(runtime);
        }
    }
}

#[test]
fn a_suspended_fiber_unwinds_where_it_is() {
    for_all(|runtime, builder| {
        let (drops, there) = (Drops::default(), Arc::new(AtomicBool::new(false)));
        let (token, is_there) = (drops.token(), there.clone());
        let handle = runtime.spawn_with(builder(), move || {
            let _token = token;
            is_there.store(true, Ordering::Release);
            loop {
                daiko::park();
            }
        });
        until("the fiber", || there.load(Ordering::Acquire));
        handle.as_ref().unwrap().cancel();
        assert_cancelled::<()>(handle.unwrap());
        assert_eq!(drops.dropped(), drops.made());
    });
}

#[test]
fn a_fiber_that_has_not_started_never_does() {
    let runtime = workers(1);
    let test = runtime.spawn_with(Builder::new().on(0), || {
        for builder in [Builder::new(), migratable()] {
            let drops = Drops::default();
            let token = drops.token();
            // Its worker is the caller's, and the caller does not suspend. No spare takes the fiber
            // either.
            let handle = builder.on(0).spawn(move || {
                let _token = token;
                unreachable!("it was cancelled before");
            });
            handle.as_ref().unwrap().cancel();
            assert_cancelled::<()>(handle.unwrap());
            assert_eq!(drops.dropped(), 1);
        }
    });
    test.unwrap().join().unwrap();
    end(runtime);
}

#[test]
fn a_running_fiber_goes_on_to_its_next_suspension() {
    for_all(|runtime, builder| {
        let there = Arc::new(AtomicUsize::new(0));
        let stages = there.clone();
        let handle = runtime
            .spawn_with(builder(), move || {
                stages.store(1, Ordering::Release);
                until("the cancel", || stages.load(Ordering::Acquire) == 2);
                stages.store(3, Ordering::Release);
                // The loop ends although nothing wakes the fiber: the cancel comes as a message.
                loop {
                    daiko::yield_now();
                }
            })
            .unwrap();
        until("the fiber", || there.load(Ordering::Acquire) == 1);
        handle.cancel();
        there.store(2, Ordering::Release);
        assert_cancelled::<()>(handle);
        assert_eq!(there.load(Ordering::Acquire), 3);
    });
}

#[test]
fn a_fiber_that_ends_first_has_its_result() {
    for_all(|runtime, builder| {
        let handle = runtime.spawn_with(builder(), || 7).unwrap();
        until("its end", || handle.is_finished());
        handle.cancel();
        assert_eq!(handle.join().unwrap(), 7);
    });
}

#[test]
fn a_cancel_that_is_swallowed_comes_again() {
    for_all(|runtime, builder| {
        let handle = runtime
            .spawn_with(builder(), || {
                for _ in 0..3 {
                    let payload = panic::catch_unwind(|| {
                        loop {
                            daiko::park();
                        }
                    });
                    let payload: Box<dyn std::any::Any + Send> = payload.unwrap_err();
                    assert!(payload.is::<Cancelled>());
                }
                5
            })
            .unwrap();
        handle.cancel();
        match handle.join() {
            Ok(result) => assert_eq!(result, 5),
            // The fiber was cancelled before its start.
            Err(error) => assert!(matches!(error, JoinError::Cancelled)),
        }
    });
}

#[test]
fn a_shield_keeps_a_cancel_back() {
    for_all(|runtime, builder| {
        let stage = Arc::new(AtomicUsize::new(0));
        let stages = stage.clone();
        let handle = runtime
            .spawn_with(builder(), move || {
                cancel::shield(|| {
                    stages.store(1, Ordering::Release);
                    yield_until("the cancel", || stages.load(Ordering::Acquire) == 2);
                    let child = daiko::spawn(daiko::yield_now);
                    child.join().unwrap();
                    daiko::time::sleep(Duration::from_micros(10));
                    stages.store(3, Ordering::Release);
                });
                loop {
                    daiko::park();
                }
            })
            .unwrap();
        until("the fiber", || stage.load(Ordering::Acquire) == 1);
        handle.cancel();
        stage.store(2, Ordering::Release);
        assert_cancelled::<()>(handle);
        assert_eq!(stage.load(Ordering::Acquire), 3);
    });
}

#[test]
fn of_cancel_and_end_exactly_one_wins() {
    for_all(|runtime, builder| {
        let drops = Drops::default();
        for _ in 0..500 {
            let token = drops.token();
            let handle = runtime
                .spawn_with(builder(), move || {
                    daiko::yield_now();
                    token
                })
                .unwrap();
            let canceller = thread::scope(|threads| {
                let canceller = threads.spawn(|| handle.cancel());
                handle.cancel();
                canceller.join()
            });
            canceller.unwrap();
            match handle.join() {
                Ok(token) => drop(token),
                Err(error) => assert!(matches!(error, JoinError::Cancelled)),
            }
        }
        assert_eq!(drops.dropped(), drops.made());
    });
}

#[test]
fn the_joiner_of_a_cancelled_fiber_is_told() {
    let runtime = workers(2);
    runtime.run(|| {
        let sleeper = daiko::spawn(|| daiko::time::sleep(Duration::MAX));
        let fiber = Arc::new(sleeper);
        fiber.cancel();
        assert_cancelled(Arc::into_inner(fiber).unwrap());
    });
    let sleeper = runtime.spawn(|| daiko::time::sleep(Duration::MAX));
    sleeper.cancel();
    assert_cancelled(sleeper);
    end(runtime);
}

#[test]
fn a_cancelled_joiner_leaves_the_other_alone() {
    let runtime = workers(1);
    runtime.run(|| {
        let done = Arc::new(AtomicBool::new(false));
        let is_done = done.clone();
        let other = daiko::spawn(move || {
            daiko::park();
            is_done.store(true, Ordering::Relaxed);
        });
        let theirs = other.fiber().clone();
        let joiner = daiko::spawn(move || other.join().unwrap());
        daiko::yield_now();
        daiko::yield_now();
        joiner.cancel();
        assert_cancelled(joiner);
        // The unwinding of its joiner detached the fiber, which continues to its end.
        theirs.unpark();
        yield_until("the end of the other", || done.load(Ordering::Relaxed));
    });
    end(runtime);
}

#[test]
fn destructors_of_many_cancelled_fibers_may_suspend() {
    for_all(|runtime, builder| {
        let drops = Drops::default();
        let fibers: Vec<_> = (0..20)
            .map(|_| {
                let token = drops.token();
                let body = move || {
                    let _token = token;
                    let _suspends = OnDrop(|| (0..5).for_each(|_| daiko::yield_now()));
                    loop {
                        daiko::park();
                    }
                };
                runtime.spawn_with(builder(), body).unwrap()
            })
            .collect();
        fibers.iter().for_each(|fiber| fiber.cancel());
        fibers.into_iter().for_each(assert_cancelled::<()>);
        drops.assert_all();
    });
}
