//! Work that is done once, by fibers, migratable fibers, threads, and all of them together.

use std::panic::{self, AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::waits::{LONG, SHORT, everywhere_anew, on_one_worker, waiting};
use crate::support::{Drops, end, panic_of, until, workers};
use daiko::JoinError;
use daiko::sync::{LazyLock, Once, OnceLock, SetTimeoutError, TimedOut};

/// Panics, without the noise of a hook.
fn panics() {
    panic::resume_unwind(Box::new(()));
}

/// Runs `body`, which panics.
fn fails(body: impl FnOnce()) {
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_err();
}

fn yield_fiber() {
    if daiko::try_current().is_some() {
        daiko::yield_now();
    }
}

#[test]
fn it_is_done_once_and_seen_by_all() {
    const EACH: usize = 100;
    everywhere_anew(3, || {
        let all: Vec<_> = (0..EACH).map(|_| (Once::new(), AtomicUsize::new(0))).collect();
        let all = Arc::new(all);
        move || {
            for (index, (once, count)) in all.iter().enumerate() {
                let init = || {
                    let before = count.load(Ordering::Relaxed);
                    yield_fiber();
                    count.store(before + 1, Ordering::Relaxed);
                };
                match index % 3 {
                    0 => once.call_once(init),
                    1 => once.call_once_force(|state| {
                        assert!(!state.is_poisoned());
                        init();
                    }),
                    _ => once.call_once_timeout(LONG, init).unwrap(),
                }
                assert!(once.is_completed() && count.load(Ordering::Relaxed) == 1);
            }
        }
    });
}

#[test]
fn a_value_is_made_once_and_seen_by_all() {
    const EACH: usize = 100;
    everywhere_anew(3, || {
        let all: Vec<_> = (0..EACH).map(|_| OnceLock::new()).collect();
        let shared = Arc::new((all, AtomicUsize::new(0)));
        move || {
            let me = shared.1.fetch_add(1, Ordering::Relaxed);
            for cell in &shared.0 {
                let make = || {
                    yield_fiber();
                    Box::new(me)
                };
                let seen = match me % 3 {
                    0 => cell.wait(),
                    1 => cell.get_or_init(make),
                    _ => match cell.set(make()) {
                        Ok(()) => cell.get().unwrap(),
                        Err(mine) => {
                            assert_eq!(*mine, me);
                            cell.get().unwrap()
                        }
                    },
                };
                assert!(std::ptr::eq(seen, cell.get().unwrap()) && **seen % 3 != 0);
            }
        }
    });
}

#[test]
fn a_panic_poisons_a_once() {
    let once = Once::new();
    fails(|| once.call_once(panics));
    assert!(!once.is_completed());
    for message in [
        panic_of(|| once.call_once(|| unreachable!("it is poisoned"))),
        panic_of(|| once.call_once_timeout(LONG, || unreachable!("it is poisoned"))),
    ] {
        assert!(message.contains("Once::call_once") && message.contains("panicked"), "{message}");
    }
    assert!(panic_of(|| once.wait()).contains("Once::wait"));
    assert_eq!(once.wait_force_timeout(SHORT), Err(TimedOut));
    fails(|| once.call_once_force(|state| (assert!(state.is_poisoned()), panics()).1));
    once.call_once_force(|state| assert!(state.is_poisoned()));
    once.call_once_force(|_| unreachable!("it is done"));
    once.call_once(|| unreachable!("it is done"));
    once.wait();
    once.wait_force();
}

#[test]
fn a_waiter_learns_that_it_was_poisoned() {
    on_one_worker(|| {
        let once = Arc::new(Once::new());
        let of = |run: fn(&Once)| {
            let once = once.clone();
            waiting(move || run(&once))
        };
        let fails = of(|once| {
            once.call_once(|| {
                daiko::park();
                panics();
            });
        });
        let calls = of(|once| once.call_once(|| unreachable!("it is poisoned")));
        let waits = of(Once::wait);
        let forces = of(|once| once.call_once_force(|state| assert!(state.is_poisoned())));
        let waits_on = of(Once::wait_force);
        fails.fiber().unpark();
        assert!(matches!(fails.join(), Err(JoinError::Panicked(_))));
        forces.join().unwrap();
        waits_on.join().unwrap();
        // They were woken before the call succeeded after all.
        assert!(matches!(calls.join(), Err(JoinError::Panicked(_))));
        assert!(matches!(waits.join(), Err(JoinError::Panicked(_))));
    });
}

#[test]
fn a_value_that_was_not_made_is_made_by_the_next() {
    let cell = OnceLock::new();
    fails(|| {
        cell.get_or_init(|| -> i32 { panic::resume_unwind(Box::new(())) });
    });
    assert_eq!(cell.get(), None);
    assert_eq!(*cell.get_or_init(|| 3), 3);
}

#[test]
fn a_cancelled_call_has_not_begun() {
    on_one_worker(|| {
        let once = Arc::new(Once::new());
        let done = Arc::new(AtomicUsize::new(0));
        let begins = || {
            let (once, done) = (once.clone(), done.clone());
            waiting(move || {
                once.call_once(|| {
                    daiko::park();
                    done.fetch_add(1, Ordering::Relaxed);
                });
            })
        };
        let (first, second) = (begins(), begins());
        let waits = once.clone();
        let waits = waiting(move || waits.wait());
        first.cancel();
        assert!(matches!(first.join(), Err(JoinError::Cancelled)));
        // The fiber that waited to call now runs the closure, or the next fiber does.
        second.cancel();
        assert!(matches!(second.join(), Err(JoinError::Cancelled)));
        assert!(!once.is_completed() && !waits.is_finished());
        let third = begins();
        third.fiber().unpark();
        third.join().unwrap();
        waits.join().unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_cancelled_waiter_disturbs_no_other() {
    on_one_worker(|| {
        let cell = Arc::new(OnceLock::new());
        let launcher = cell.clone();
        let launcher = waiting(move || *launcher.get_or_init(|| (daiko::park(), 5).1));
        let waiters = [(); 2].map(|()| {
            let cell = cell.clone();
            waiting(move || *cell.get_or_init(|| unreachable!("it is being made")))
        });
        waiters[0].cancel();
        daiko::yield_now();
        launcher.fiber().unpark();
        assert_eq!(launcher.join().unwrap(), 5);
        let [first, second] = waiters;
        assert!(matches!(first.join(), Err(JoinError::Cancelled)));
        assert_eq!(second.join().unwrap(), 5);
    });
}

#[test]
fn waits_end_by_their_timeouts() {
    on_one_worker(|| {
        let shared =
            Arc::new((Once::new(), OnceLock::new(), LazyLock::new(|| (daiko::park(), 7).1)));
        let (first, second, third) = (shared.clone(), shared.clone(), shared.clone());
        let launchers = [
            waiting(move || first.0.call_once(daiko::park)),
            waiting(move || assert_eq!(*second.1.get_or_init(|| (daiko::park(), 7).1), 7)),
            waiting(move || assert_eq!(*LazyLock::force(&third.2), 7)),
        ];
        let theirs = shared.clone();
        let asks = move || {
            let ((once, cell, lazy), never) = (&*theirs, || unreachable!("it is being done"));
            for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
                assert_eq!(once.call_once_timeout(timeout, never), Err(TimedOut));
                assert_eq!(once.call_once_force_timeout(timeout, |_| never()), Err(TimedOut));
                assert_eq!(once.wait_timeout(timeout), Err(TimedOut));
                assert_eq!(once.wait_force_timeout(timeout), Err(TimedOut));
                assert_eq!(cell.get_or_init_timeout(timeout, || (never(), 0).1), Err(TimedOut));
                assert_eq!(cell.set_timeout(8, timeout), Err(SetTimeoutError::TimedOut(8)));
                assert_eq!(cell.wait_timeout(timeout), Err(TimedOut));
                assert_eq!(LazyLock::force_timeout(lazy, timeout), Err(TimedOut));
            }
            let now = Instant::now();
            assert_eq!(once.call_once_timeout(now, never), Err(TimedOut));
            assert_eq!(once.call_once_force_timeout(now, |_| never()), Err(TimedOut));
            assert_eq!(once.wait_timeout(now), Err(TimedOut));
            assert_eq!(once.wait_force_timeout(now), Err(TimedOut));
            assert_eq!(cell.get_or_init_timeout(now, || (never(), 0).1), Err(TimedOut));
            assert_eq!(cell.set_timeout(8, now), Err(SetTimeoutError::TimedOut(8)));
            assert_eq!(cell.wait_timeout(now), Err(TimedOut));
            assert_eq!(LazyLock::force_timeout(lazy, now), Err(TimedOut));
        };
        asks();
        thread::spawn(asks).join().unwrap();
        let (waits, reads, writes) = (shared.clone(), shared.clone(), shared.clone());
        let waiters = [
            waiting(move || assert_eq!(waits.0.wait_timeout(Duration::MAX), Ok(()))),
            waiting(move || assert_eq!(reads.1.wait_timeout(Duration::MAX), Ok(&7))),
            waiting(move || {
                assert_eq!(writes.1.set_timeout(8, LONG), Err(SetTimeoutError::Occupied(8)));
            }),
        ];
        launchers.iter().for_each(|launcher| launcher.fiber().unpark());
        launchers.into_iter().chain(waiters).for_each(|fiber| fiber.join().unwrap());
        assert_eq!(shared.0.call_once_timeout(Duration::ZERO, || ()), Ok(()));
        assert_eq!(LazyLock::force_timeout(&shared.2, Duration::ZERO), Ok(&7));
    });
}

#[test]
fn a_wait_for_itself_is_reported_by_name() {
    static LAZY: LazyLock<u32> = LazyLock::new(|| *LAZY);
    let check = || {
        let once = Once::new();
        let message = panic_of(|| once.call_once(|| once.call_once(|| ())));
        assert!(message.contains("Once::call_once"), "{message}");
        let once = Once::new();
        let message = panic_of(|| once.call_once(|| once.wait()));
        assert!(message.contains("Once::wait"), "{message}");
        let cell = OnceLock::new();
        let message = panic_of(|| *cell.get_or_init(|| *cell.get_or_init(|| 1)));
        assert!(message.contains("OnceLock::get_or_init"), "{message}");
        let message = panic_of(|| *cell.get_or_init(|| cell.set(1).map_or(2, |()| 3)));
        assert!(message.contains("OnceLock::set"), "{message}");
    };
    check();
    assert!(panic_of(|| *LAZY).contains("LazyLock::force"));
    for count in 1..=2 {
        let runtime = workers(count);
        runtime.run(check);
        end(runtime);
    }
    assert!(panic_of(|| *LAZY).contains("LazyLock is poisoned"));
}

#[test]
fn a_lazy_value_is_made_when_it_is_asked_for() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static LAZY: LazyLock<usize> = LazyLock::new(|| {
        yield_fiber();
        MADE.fetch_add(1, Ordering::Relaxed) + 41
    });
    assert_eq!(format!("{LAZY:?}"), "LazyLock(<uninit>)");
    everywhere_anew(2, || || assert_eq!(*LAZY, 41));
    assert_eq!(MADE.load(Ordering::Relaxed), 1);
    assert_eq!(format!("{LAZY:?}"), "LazyLock(41)");
    assert_eq!(*LazyLock::<String>::default(), "");
}

#[test]
fn a_lazy_value_is_refused_after_its_closure_panicked() {
    let lazy = LazyLock::new(|| -> u32 { panic::resume_unwind(Box::new(())) });
    fails(|| assert_eq!(*lazy, 0));
    assert!(panic_of(|| *lazy).contains("LazyLock is poisoned"));
}

#[test]
fn a_cancel_waits_until_a_lazy_value_is_made() {
    on_one_worker(|| {
        let lazy = Arc::new(LazyLock::new(|| (daiko::park(), daiko::yield_now(), 5).2));
        let theirs = lazy.clone();
        let launcher = waiting(move || {
            assert_eq!(**theirs, 5);
            daiko::park();
        });
        launcher.cancel();
        daiko::yield_now();
        assert!(!launcher.is_finished());
        launcher.fiber().unpark();
        assert!(matches!(launcher.join(), Err(JoinError::Cancelled)));
        assert_eq!(**lazy, 5);
    });
}

#[test]
fn they_may_be_shared_as_those_of_std() {
    fn shared<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    shared::<Once>();
    shared::<OnceLock<i32>>();
    shared::<LazyLock<i32>>();
}

#[test]
fn values_are_dropped_once() {
    let drops = Drops::default();
    let mut cell = OnceLock::new();
    assert!(cell.set(drops.token()).is_ok());
    assert!(cell.set(drops.token()).is_err());
    assert_eq!((drops.made(), drops.dropped()), (2, 1));
    assert!(cell.get_mut().is_some());
    drop(cell.take());
    assert!(cell.get().is_none() && cell.get_mut().is_none() && cell.take().is_none());
    cell.get_or_init(|| drops.token());
    drop(cell);
    drop(OnceLock::from(drops.token()).into_inner());
    let token = drops.token();
    drop(LazyLock::new(move || token));
    assert_eq!(*OnceLock::from(1).clone().get_or_init(|| 2), 1);
    assert_eq!(OnceLock::from(1).clone(), OnceLock::from(1));
    assert_ne!(OnceLock::from(1), OnceLock::new());
    assert_eq!(format!("{:?}", OnceLock::from(1)), "OnceLock(1)");
    drops.assert_all();
}

#[test]
fn waits_inside_no_suspend_panic() {
    on_one_worker(|| {
        let once = Arc::new(Once::new());
        let theirs = once.clone();
        let launcher = waiting(move || theirs.call_once(daiko::park));
        let message = panic_of(|| daiko::no_suspend(|| once.call_once(|| ())));
        assert!(message.contains("no_suspend"), "{message}");
        launcher.fiber().unpark();
        launcher.join().unwrap();
        // A call that need not wait is allowed there.
        daiko::no_suspend(|| {
            once.wait();
            Once::new().call_once(|| ());
        });
    });
}

#[test]
fn the_end_of_a_runtime_unwinds_waiters() {
    let (runtime, once) = (workers(1), Arc::new(Once::new()));
    let there = Arc::new(AtomicUsize::new(0));
    for place in 0..3 {
        let (once, there) = (once.clone(), there.clone());
        drop(runtime.spawn(move || {
            there.fetch_add(1, Ordering::Release);
            if place == 0 { once.wait() } else { once.call_once(daiko::park) }
        }));
    }
    until("all of them", || there.load(Ordering::Acquire) == 3);
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (3, 0));
    once.call_once(|| ());
    assert!(once.is_completed());
}
