//! `block_on` and `spawn_future`.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::{future, thread};

use daiko::sync::channel;
use daiko::time::{self, Elapsed};
use daiko::{Builder, JoinError, block_on, cancel};

use crate::support::waits::{LONG, SHORT, everywhere_numbered, on_borrowed_thread_locals, waiting};
use crate::support::{Drops, end, everywhere, migratable, panic_of, workers};
use crate::{Signal, until, yields};

#[test]
fn a_ready_future_needs_no_runtime() {
    assert_eq!(block_on(async { 7 }), 7);
    assert_eq!(block_on(future::ready("ready")), "ready");
}

#[test]
fn threads_wake_a_fiber_and_a_thread() {
    let waits = || {
        let signal = Signal::default();
        let theirs = signal.clone();
        let waker = thread::spawn(move || {
            theirs.await_poll();
            theirs.fire();
        });
        block_on(signal.clone());
        waker.join().unwrap();
        assert!(signal.polls() >= 2);
    };
    everywhere(waits);
    waits();
    daiko::run(move || daiko::blocking(waits));
}

#[test]
fn fibers_threads_and_migratable_fibers_yield_and_are_woken_under_load() {
    everywhere_numbered(8, |number| {
        let signal = Signal::default();
        let theirs = signal.clone();
        let waker = Builder::new().spawn(move || {
            block_on(yields(number));
            theirs.fire();
        });
        block_on(async {
            yields(20).await;
            signal.await;
            yields(20).await;
        });
        waker.unwrap().join().unwrap();
    });
}

#[test]
fn a_future_that_wakes_itself_leaves_its_worker_to_others() {
    let runtime = workers(1);
    runtime.run(|| {
        let done = Arc::new(AtomicBool::new(false));
        let theirs = done.clone();
        // By name, so that no spare worker starts it.
        let other = Builder::new().on(0).spawn(move || theirs.store(true, Ordering::Relaxed));
        let mut polls = 0;
        block_on(until(|waker| {
            polls += 1;
            assert!(polls < 1000, "the worker was not left");
            waker.wake_by_ref();
            done.load(Ordering::Relaxed).then_some(())
        }));
        other.unwrap().join().unwrap();
    });
    end(runtime);
}

/// Wakes are not unparks: of the same fiber, or of the next one on the same stack.
#[test]
fn a_waker_of_a_fiber_that_has_ended_wakes_no_other() {
    let runtime = workers(1);
    runtime.run(|| {
        let mut stale = Vec::new();
        for _ in 0..20 {
            let signal = Signal::default();
            let theirs = signal.clone();
            let fiber = waiting(move || block_on(theirs));
            stale.push(signal.waker().unwrap());
            signal.fire();
            fiber.join().unwrap();

            let (unparked, is_over) = (Arc::new(AtomicBool::new(false)), Signal::default());
            let (theirs, also_over) = (unparked.clone(), is_over.clone());
            let next = waiting(move || {
                daiko::park();
                assert!(theirs.load(Ordering::Relaxed), "unparked by a waker");
                block_on(also_over);
            });
            stale.iter().for_each(|waker| waker.wake_by_ref());
            daiko::yield_now();
            unparked.store(true, Ordering::Relaxed);
            next.fiber().unpark();
            daiko::yield_now();
            let polls = is_over.polls();
            stale.iter().for_each(|waker| waker.wake_by_ref());
            daiko::yield_now();
            assert_eq!(is_over.polls(), polls, "polled by a waker of another");
            is_over.fire();
            next.join().unwrap();
        }
    });
    end(runtime);
}

#[test]
fn a_waker_lives_longer_than_its_runtime() {
    let signal = Signal::default();
    let runtime = workers(2);
    let theirs = signal.clone();
    let fiber = runtime.spawn(move || block_on(theirs));
    signal.await_poll();
    signal.fire();
    fiber.join().unwrap();
    let waker = signal.waker().unwrap();
    end(runtime);
    waker.wake_by_ref();
    let clone = waker.clone();
    drop(signal.waker());
    clone.wake();
    // The stacks of this runtime may lie at the same addresses.
    let next = workers(2);
    next.run(move || waker.wake());
    drop(signal);
    end(next);
}

#[test]
fn a_waker_is_cloned_a_thousand_times_and_each_clone_wakes() {
    everywhere(|| {
        let (woken, mut clones) = (Arc::new(AtomicUsize::new(0)), Vec::new());
        let theirs = woken.clone();
        let mut wakers = None;
        block_on(until(move |waker| {
            wakers.get_or_insert_with(|| {
                clones.extend((0..1000).map(|_| waker.clone()));
                let (theirs, mut left) = (theirs.clone(), std::mem::take(&mut clones));
                thread::spawn(move || {
                    while let Some(waker) = left.pop() {
                        theirs.fetch_add(1, Ordering::Relaxed);
                        match left.len() % 3 {
                            0 => waker.wake(),
                            1 => waker.wake_by_ref(),
                            _ => drop(waker),
                        }
                    }
                })
            });
            (theirs.load(Ordering::Relaxed) == 1000).then_some(())
        }));
        assert_eq!(woken.load(Ordering::Relaxed), 1000);
    });
}

#[test]
fn a_cancel_drops_a_future_that_never_wakes_on_the_stack_of_its_fiber() {
    let runtime = workers(1);
    runtime.run(|| {
        let drops = Drops::default();
        let held = drops.token();
        let fiber = waiting(move || {
            block_on(async {
                let _held = held;
                future::pending::<()>().await;
            });
        });
        fiber.cancel();
        assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
        drops.assert_all();
    });
    end(runtime);
}

#[test]
fn a_cancel_waits_for_the_end_of_a_shield() {
    let runtime = workers(1);
    runtime.run(|| {
        let signal = Signal::default();
        let (theirs, shielded) = (signal.clone(), Arc::new(AtomicBool::new(false)));
        let was_shielded = shielded.clone();
        let fiber = waiting(move || {
            cancel::shield(|| block_on(theirs));
            was_shielded.store(true, Ordering::Relaxed);
            block_on(future::pending::<()>());
        });
        fiber.cancel();
        daiko::yield_now();
        assert!(!shielded.load(Ordering::Relaxed));
        signal.fire();
        assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
        assert!(shielded.load(Ordering::Relaxed));
    });
    end(runtime);
}

#[test]
fn a_timeout_ends_a_wait_and_a_wake_in_time_ends_the_timeout() {
    everywhere(|| {
        assert_eq!(time::timeout(SHORT, || block_on(future::pending::<()>())), Err(Elapsed));
        let signal = Signal::default();
        let theirs = signal.clone();
        let waker = thread::spawn(move || {
            theirs.await_poll();
            theirs.fire();
        });
        assert_eq!(time::timeout(LONG, || block_on(signal)), Ok(()));
        waker.join().unwrap();
    });
}

/// The polled code uses up the token of an unpark that came with the wake.
#[test]
fn a_poll_that_parks_loses_no_wake() {
    everywhere(|| {
        let mut polls = 0;
        block_on(until(|waker| {
            polls += 1;
            if polls < 3 {
                let (waker, fiber) = (waker.clone(), daiko::current());
                let other = thread::spawn(move || {
                    waker.wake();
                    fiber.unpark();
                });
                // Both have come, before the token is used up.
                other.join().unwrap();
                daiko::park();
                return None;
            }
            Some(())
        }));
        assert_eq!(polls, 3);
    });
}

#[test]
fn a_wake_takes_no_token_and_leaves_none() {
    let runtime = workers(1);
    runtime.run(|| {
        daiko::current().unpark();
        block_on(yields(3));
        // The token is still there.
        daiko::park();
        let signal = Signal::default();
        let theirs = signal.clone();
        daiko::spawn(move || theirs.fire());
        block_on(signal);
        let me = daiko::current();
        let unparked = Arc::new(AtomicBool::new(false));
        let theirs = unparked.clone();
        daiko::spawn(move || {
            theirs.store(true, Ordering::Relaxed);
            me.unpark();
        });
        daiko::park();
        assert!(unparked.load(Ordering::Relaxed), "unparked by a wake");
    });
    end(runtime);
}

#[test]
fn a_poll_runs_another_block_on_and_each_has_its_wakes() {
    everywhere(|| {
        let (outer, inner) = (Signal::default(), Signal::default());
        let (fires_outer, fires_inner) = (outer.clone(), inner.clone());
        let other = thread::spawn(move || {
            fires_inner.await_poll();
            // While the inner one waits.
            fires_outer.fire();
            fires_inner.fire();
        });
        let mut first = true;
        let mut both = Box::pin(outer);
        block_on(future::poll_fn(move |context| {
            let poll = both.as_mut().poll(context);
            if std::mem::replace(&mut first, false) {
                assert!(poll.is_pending());
                block_on(inner.clone());
                return Poll::Pending;
            }
            poll
        }));
        other.join().unwrap();
    });
}

#[test]
fn a_future_suspends_within_its_poll() {
    everywhere(|| {
        let (sender, receiver) = channel::rendezvous();
        daiko::spawn(move || (0..3).for_each(|i| sender.send(i).unwrap()));
        let sum = block_on(async {
            yields(1).await;
            let first = receiver.recv().unwrap();
            time::sleep(SHORT);
            yields(1).await;
            first + receiver.recv().unwrap() + receiver.recv().unwrap()
        });
        assert_eq!(sum, 3);
    });
}

#[test]
fn a_pending_future_inside_no_suspend_panics_and_the_next_one_waits() {
    everywhere(|| {
        assert_eq!(daiko::no_suspend(|| block_on(async { 7 })), 7);
        let message = panic_of(|| daiko::no_suspend(|| block_on(future::pending::<()>())));
        assert!(message.contains("no_suspend"), "{message}");
        let message = panic_of(|| daiko::no_suspend(|| block_on(yields(1))));
        assert!(message.contains("no_suspend"), "{message}");
        block_on(yields(3));
    });
}

#[test]
fn a_panic_of_the_future_passes_and_the_fiber_goes_on() {
    everywhere(|| {
        let message = panic_of(|| {
            block_on(async {
                yields(2).await;
                panic!("in the future");
            })
        });
        assert_eq!(message, "in the future");
        block_on(yields(2));
    });
}

#[test]
fn fibers_that_borrow_thread_locals_poll_as_well() {
    on_borrowed_thread_locals(|| {
        let fibers: Vec<_> = (0..10).map(|i| daiko::spawn_future(yields(i))).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn a_destructor_polls_while_its_fiber_unwinds() {
    everywhere(|| {
        struct Polls;
        impl Drop for Polls {
            fn drop(&mut self) {
                block_on(yields(3));
            }
        }
        let unwound = panic::catch_unwind(AssertUnwindSafe(|| {
            let _polls = Polls;
            panic!("through the destructor");
        }));
        assert!(unwound.is_err());
    });
}

#[test]
fn a_spawned_future_has_the_place_of_its_spawner_and_its_panic() {
    let runtime = workers(2);
    runtime.run(|| {
        let line = line!() + 1;
        let fiber = daiko::spawn_future(async { 6 * 7 });
        assert_eq!(fiber.fiber().spawned_at().line(), line);
        assert_eq!(fiber.join().unwrap(), 42);
        let fiber = daiko::spawn_future(async {
            yields(1).await;
            panic!("a future")
        });
        let fiber: daiko::JoinHandle<()> = fiber;
        let payload = fiber.join().unwrap_err().into_panic().unwrap();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"a future"));
    });
    end(runtime);
}

/// Many migratable fibers wait on two workers; threads wake them, so that wakes meet moves.
#[test]
fn migratable_fibers_move_between_polls() {
    const ROUNDS: usize = 50;
    let runtime = workers(2);
    let (tell, told) = mpsc::channel::<Signal>();
    let waker = thread::spawn(move || {
        for signal in told {
            signal.await_poll();
            signal.fire();
        }
    });
    let fibers: Vec<_> = (0..20)
        .map(|_| {
            let tell = tell.clone();
            let body = move || {
                for _ in 0..ROUNDS {
                    let signal = Signal::default();
                    tell.send(signal.clone()).unwrap();
                    block_on(async {
                        yields(2).await;
                        signal.await;
                    });
                }
            };
            runtime.spawn_with(migratable(), body).unwrap()
        })
        .collect();
    drop(tell);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    waker.join().unwrap();
    end(runtime);
}

#[test]
fn a_shutdown_unwinds_a_fiber_out_of_its_future() {
    let runtime = workers(1);
    let (drops, signal) = (Drops::default(), Signal::default());
    let (held, theirs) = (drops.token(), signal.clone());
    let fiber = runtime.spawn(|| {
        block_on(async {
            let _held = held;
            theirs.await;
        });
    });
    signal.await_poll();
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (1, 0));
    assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
    drops.assert_all();
    signal.fire();
}
