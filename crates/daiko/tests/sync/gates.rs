//! Event, barrier and wait group, between fibers, migratable fibers, threads, and all of them
//! together.

use std::panic::{self, AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::waits::{LONG, SHORT, everywhere, everywhere_anew, on_one_worker, waiting};
use crate::support::{end, panic_of, until, workers, yield_until};
use daiko::sync::{Barrier, Event, TimedOut, WaitGroup};
use daiko::{JoinError, JoinHandle};

#[test]
fn an_automatic_event_lets_one_go_for_each_set() {
    let (event, count) = (Arc::new(Event::auto()), Arc::new(AtomicU64::new(0)));
    let shared = (event.clone(), count.clone());
    event.set();
    // The event serves as a lock: the released waiter owns the count until it sets the event again.
    everywhere(3, move || {
        for round in 0..300 {
            shared.0.wait();
            let before = shared.1.load(Ordering::Relaxed);
            if round % 8 == 0 && daiko::try_current().is_some() {
                daiko::yield_now();
            }
            shared.1.store(before + 1, Ordering::Relaxed);
            shared.0.set();
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 4 * 9 * 300);
    assert!(event.is_set());
}

#[test]
fn a_manual_event_lets_all_waiters_go_and_shows_earlier_writes() {
    everywhere_anew(2, || {
        let shared = Arc::new((Barrier::new(6), Event::manual(), AtomicU64::new(0)));
        move || {
            let (barrier, event, value) = &*shared;
            for round in 1..=100 {
                if barrier.wait().is_leader() {
                    value.store(round, Ordering::Relaxed);
                    event.set();
                }
                event.wait();
                assert_eq!(value.load(Ordering::Relaxed), round);
                if barrier.wait().is_leader() {
                    event.reset();
                }
                // No participant enters the next round before the barrier is reset.
                barrier.wait();
            }
        }
    });
}

/// Spawns `N` fibers that wait for `event`, on the caller's only worker; returns once they wait.
fn waiters<const N: usize>(event: &Arc<Event>) -> [JoinHandle<()>; N] {
    [(); N].map(|()| {
        let event = event.clone();
        waiting(move || event.wait())
    })
}

#[test]
fn a_waiter_for_a_manual_event_goes_though_it_is_reset_at_once() {
    on_one_worker(|| {
        let event = Arc::new(Event::manual());
        let all = waiters::<3>(&event);
        event.set();
        event.reset();
        all.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert!(!event.is_set());
        event.set();
        event.set();
        event.wait();
        event.wait();
        event.reset();
        assert_eq!(event.wait_timeout(Duration::ZERO), Err(TimedOut));
    });
}

#[test]
fn sets_of_an_automatic_event_add_up_for_waiters_only() {
    on_one_worker(|| {
        let event = Arc::new(Event::auto());
        let [first, second, third] = waiters(&event);
        event.set();
        first.join().unwrap();
        daiko::yield_now();
        assert!(!second.is_finished() && !third.is_finished());
        event.set();
        event.set();
        assert!(!event.is_set());
        second.join().unwrap();
        third.join().unwrap();
        event.set();
        event.set();
        assert!(event.is_set());
        event.wait();
        assert_eq!(event.wait_timeout(SHORT), Err(TimedOut));
        event.set();
        event.reset();
        assert!(!event.is_set());
    });
}

#[test]
fn an_event_is_not_waited_for_longer_than_asked() {
    let ask = || {
        for event in [Event::auto(), Event::manual()] {
            for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
                assert_eq!(event.wait_timeout(timeout), Err(TimedOut));
            }
            assert_eq!(event.wait_timeout(Instant::now()), Err(TimedOut));
            event.set();
            assert_eq!(event.wait_timeout(Duration::ZERO), Ok(()));
            event.set();
            assert_eq!(event.wait_timeout(Instant::now()), Ok(()));
        }
    };
    ask();
    let runtime = workers(2);
    runtime.run(ask);
    end(runtime);
    on_one_worker(|| {
        let event = Arc::new(Event::manual());
        let waiters = [LONG, Duration::MAX].map(|timeout| {
            let event = event.clone();
            waiting(move || event.wait_timeout(timeout))
        });
        event.set();
        waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), Ok(())));
    });
}

#[test]
fn a_cancelled_waiter_takes_no_set_along() {
    on_one_worker(|| {
        let event = Arc::new(Event::auto());
        // Cancelled before, and after, the waiter was released.
        let [first, second] = waiters(&event);
        first.cancel();
        event.set();
        second.join().unwrap();
        assert!(matches!(first.join(), Err(JoinError::Cancelled)));
        let [first, second] = waiters(&event);
        event.set();
        first.cancel();
        let came = first.join().is_ok();
        assert_eq!(second.is_finished(), !came);
        event.set();
        second.join().unwrap();
        // A manual event keeps its state.
        let event = Arc::new(Event::manual());
        let [waiter] = waiters(&event);
        waiter.cancel();
        event.set();
        event.reset();
        assert!(matches!(waiter.join(), Err(JoinError::Cancelled)));
        assert!(!event.is_set());
    });
}

#[test]
fn a_fiber_and_a_thread_let_each_other_go() {
    let runtime = workers(1);
    let events = Arc::new([Event::auto(), Event::auto()]);
    let turns = |mine: usize, events: Arc<[Event; 2]>| {
        move || {
            for _ in 0..200 {
                events[mine].wait();
                events[1 - mine].set();
            }
        }
    };
    let fiber = runtime.spawn(turns(0, events.clone()));
    events[0].set();
    turns(1, events.clone())();
    fiber.join().unwrap();
    assert_eq!(events.each_ref().map(Event::is_set), [true, false]);
    end(runtime);
}

#[test]
fn a_barrier_has_one_leader_a_round() {
    const ROUNDS: usize = 200;
    everywhere_anew(2, || {
        let barrier = Arc::new(Barrier::new(6));
        let counts = Arc::new([(); 2].map(|()| AtomicUsize::new(0)));
        move || {
            for round in 0..ROUNDS {
                counts[0].fetch_add(1, Ordering::Relaxed);
                let leads = barrier.wait().is_leader();
                assert_eq!(counts[0].load(Ordering::Relaxed), 6 * (round + 1), "not all are here");
                counts[1].fetch_add(usize::from(leads), Ordering::Relaxed);
                barrier.wait();
                assert_eq!(counts[1].load(Ordering::Relaxed), round + 1);
            }
        }
    });
}

#[test]
fn a_waiter_that_leaves_a_barrier_has_not_arrived() {
    on_one_worker(|| {
        let barrier = Arc::new(Barrier::new(2));
        for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
            assert_eq!(barrier.wait_timeout(timeout), Err(TimedOut));
        }
        assert_eq!(barrier.wait_timeout(Instant::now()), Err(TimedOut));
        let arrive = || {
            let barrier = barrier.clone();
            waiting(move || barrier.wait_timeout(Duration::MAX).unwrap().is_leader())
        };
        let cancelled = arrive();
        cancelled.cancel();
        assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
        assert_eq!(barrier.wait_timeout(Duration::ZERO), Err(TimedOut));
        let first = arrive();
        assert!(barrier.wait_timeout(Duration::ZERO).unwrap().is_leader());
        assert!(!first.join().unwrap());
        // A released waiter has arrived, even if it is cancelled.
        let first = arrive();
        assert!(barrier.wait().is_leader());
        first.cancel();
        let _ = first.join();
        assert_eq!(barrier.wait_timeout(Duration::ZERO), Err(TimedOut));
    });
}

#[test]
fn a_barrier_of_one_never_waits_and_a_barrier_of_none_is_refused() {
    let barrier = Barrier::new(1);
    assert!(barrier.wait().is_leader() && barrier.wait().is_leader());
    assert!(panic_of(|| Barrier::new(0)).contains("Barrier of 0"));
    on_one_worker(|| {
        let message = panic_of(|| daiko::no_suspend(|| Barrier::new(1).wait()));
        assert!(message.contains("no_suspend"), "{message}");
    });
}

#[test]
fn a_group_is_waited_for_until_all_have_left() {
    everywhere_anew(2, || {
        let shared = Arc::new((Barrier::new(6), AtomicUsize::new(0)));
        let first = WaitGroup::new();
        let members: Vec<_> = (0..6).map(|_| first.clone()).collect();
        let members = Arc::new(daiko::sync::Mutex::new(members));
        drop(first);
        move || {
            let member = members.lock().unwrap().pop().unwrap();
            if daiko::try_current().is_some() {
                daiko::yield_now();
            }
            shared.1.fetch_add(1, Ordering::Relaxed);
            member.wait();
            assert_eq!(shared.1.load(Ordering::Relaxed), 6);
            shared.0.wait();
        }
    });
}

#[test]
fn a_member_that_timed_out_is_a_member_again() {
    let ask = || {
        let (group, other) = (WaitGroup::new(), WaitGroup::default());
        let member = group.clone();
        let mut group = group;
        for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
            group = group.wait_timeout(timeout).unwrap_err();
        }
        group = group.wait_timeout(Instant::now()).unwrap_err();
        assert_eq!(format!("{group:?}"), "WaitGroup { members: 2 }");
        let member = member.wait_timeout(Duration::ZERO).unwrap_err();
        drop(group);
        assert!(member.wait_timeout(Duration::ZERO).is_ok());
        assert!(other.wait_timeout(Instant::now()).is_ok());
    };
    ask();
    let runtime = workers(2);
    runtime.run(ask);
    end(runtime);
}

#[test]
fn the_last_to_leave_wakes_all_waiters() {
    on_one_worker(|| {
        let group = WaitGroup::new();
        let waiters = [LONG, Duration::MAX].map(|timeout| {
            let member = group.clone();
            waiting(move || member.wait_timeout(timeout).is_ok())
        });
        let cancelled = group.clone();
        let cancelled = waiting(move || cancelled.wait());
        cancelled.cancel();
        assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
        let panics = group.clone();
        let _ = panic::catch_unwind(AssertUnwindSafe(move || {
            let _member = panics;
            panic::resume_unwind(Box::new(()));
        }));
        daiko::yield_now();
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        drop(group);
        waiters.into_iter().for_each(|waiter| assert!(waiter.join().unwrap()));
    });
}

/// If a timeout and the last leave race, one side sees the other.
#[test]
fn a_member_that_comes_back_is_not_missed() {
    let runtime = workers(2);
    for _ in 0..500 {
        let (group, left) = (WaitGroup::new(), Arc::new(AtomicBool::new(false)));
        let (member, leaves) = (group.clone(), left.clone());
        let fiber = runtime.spawn(move || {
            leaves.store(true, Ordering::Relaxed);
            drop(member);
        });
        let mut group = Some(group);
        while let Some(member) = group.take() {
            group = member.wait_timeout(SHORT).err();
        }
        assert!(left.load(Ordering::Relaxed));
        fiber.join().unwrap();
    }
    end(runtime);
}

#[test]
fn waits_inside_no_suspend_panic() {
    on_one_worker(|| {
        let (event, group) = (Event::manual(), WaitGroup::new());
        let message = panic_of(|| daiko::no_suspend(|| event.wait()));
        assert!(message.contains("no_suspend"), "{message}");
        let _member = group.clone();
        let message = panic_of(|| daiko::no_suspend(|| group.wait()));
        assert!(message.contains("no_suspend"), "{message}");
        event.set();
        daiko::no_suspend(|| event.wait());
    });
}

#[test]
fn the_end_of_a_runtime_unwinds_waiters() {
    let runtime = workers(1);
    let shared = Arc::new((Event::auto(), Event::manual(), Barrier::new(2)));
    let (group, there) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
    for place in 0..4 {
        let (shared, there, member) = (shared.clone(), there.clone(), group.clone());
        drop(runtime.spawn(move || {
            there.fetch_add(1, Ordering::Release);
            match place {
                0 => shared.0.wait(),
                1 => shared.1.wait(),
                2 => drop(shared.2.wait()),
                _ => member.wait(),
            }
        }));
    }
    until("all of them", || there.load(Ordering::Acquire) == 4);
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (4, 0));
    assert_eq!(shared.2.wait_timeout(Duration::ZERO), Err(TimedOut));
    group.wait();
}

#[test]
fn they_may_be_shared_as_those_of_std() {
    fn shared<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    shared::<Event>();
    shared::<Barrier>();
    shared::<WaitGroup>();
}

#[test]
fn ten_thousand_fibers_wait_for_one_event() {
    let runtime = workers(2);
    runtime.run(|| {
        let (event, there) = (Arc::new(Event::manual()), Arc::new(AtomicUsize::new(0)));
        let waiters: Vec<_> = (0..10_000)
            .map(|_| {
                let (event, there) = (event.clone(), there.clone());
                daiko::spawn(move || {
                    there.fetch_add(1, Ordering::Release);
                    event.wait();
                })
            })
            .collect();
        yield_until("all waiters", || there.load(Ordering::Acquire) == 10_000);
        thread::scope(|threads| {
            threads.spawn(|| event.set());
        });
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
    end(runtime);
}
