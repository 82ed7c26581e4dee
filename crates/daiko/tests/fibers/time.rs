//! Timers: no fiber continues before its time, each fiber continues afterwards.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::endless::LONG;
use crate::support::{self, Drops, PRESETS, end, everywhere, migratable, run_on, until, workers};
use daiko::watch::{self, at_least};
use daiko::{JoinError, Preset, Runtime, time};

#[test]
fn no_fiber_resumes_before_its_time() {
    for preset in PRESETS {
        let runtime = daiko::Runtime::builder().workers(2).preset(preset).build().unwrap();
        let sleepers: Vec<_> = (0..200u64)
            .map(|index| {
                let builder = if index % 2 == 0 { daiko::Builder::new() } else { migratable() };
                let body = move || {
                    for nanoseconds in [0, 1, 1000 * index, 37 * index] {
                        let (start, time) = (Instant::now(), Duration::from_nanos(nanoseconds));
                        time::sleep(time);
                        assert!(start.elapsed() >= time);
                        time::sleep(start + 2 * time);
                        assert!(start.elapsed() >= 2 * time);
                    }
                };
                runtime.spawn_with(builder, body).unwrap()
            })
            .collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        end(runtime);
    }
}

/// A program with `use daiko as thread` finds it, and not that of `std`, which blocks the worker.
#[test]
fn sleep_is_where_std_has_it() {
    use daiko as thread;

    run_on(daiko::Runtime::builder().workers(1), || {
        let neighbour = thread::spawn(daiko::current);
        thread::sleep(Duration::from_millis(1));
        assert!(neighbour.is_finished(), "it ran meanwhile");
        neighbour.join().unwrap();
    });
}

/// The preset polls a polled watch every millisecond. If sleeps lasted until then, at most twenty
/// would fit into the span.
#[test]
fn a_sleep_is_over_before_the_next_sample_of_a_polled_watch() {
    let (span, short) = (Duration::from_millis(20), Duration::from_micros(50));
    run_on(Runtime::builder().workers(1).preset(Preset::Power), move || {
        let word = Arc::new(AtomicU64::new(0));
        let watched = word.clone();
        let watcher = daiko::spawn(move || watch::wait_until(&*watched, at_least(1)));
        daiko::yield_now();
        let sleeps_in_span = || {
            let start = Instant::now();
            iter::repeat_with(|| time::sleep(short)).take_while(|()| start.elapsed() < span).count()
        };
        until("a span with more sleeps than samples", || sleeps_in_span() > 40);
        word.store(1, Ordering::Release);
        assert_eq!(watcher.join().unwrap(), 1);
    });
}

#[test]
fn a_thread_that_is_no_worker_sleeps_too() {
    let (start, time) = (Instant::now(), Duration::from_millis(1));
    time::sleep(time);
    time::sleep(start + 2 * time);
    assert!(start.elapsed() >= 2 * time);
}

#[test]
fn a_sleeping_fiber_keeps_no_worker() {
    let runtime = workers(1);
    runtime.run(|| {
        let sleepers: Vec<_> = (0..10_000).map(|_| daiko::spawn(|| time::sleep(LONG))).collect();
        time::sleep(Duration::from_micros(100));
        sleepers.iter().for_each(|sleeper| sleeper.cancel());
        for sleeper in sleepers {
            assert!(matches!(sleeper.join(), Err(JoinError::Cancelled)));
        }
    });
    end(runtime);
}

#[test]
fn an_unpark_does_not_end_a_sleep_and_is_kept() {
    let runtime = workers(1);
    runtime.run(|| {
        let sleeper = daiko::spawn(|| {
            let (start, time) = (Instant::now(), Duration::from_millis(2));
            time::sleep(time);
            assert!(start.elapsed() >= time);
            daiko::park();
        });
        daiko::yield_now();
        sleeper.fiber().unpark();
        sleeper.join().unwrap();
    });
    end(runtime);
}

#[test]
fn ticks_do_not_drift_and_those_missed_are_counted() {
    let runtime = workers(1);
    runtime.run(|| {
        let (start, period) = (Instant::now(), Duration::from_micros(200));
        let mut interval = time::interval(period);
        assert_eq!(interval.period(), period);
        let mut due = 0;
        for _ in 0..20 {
            due += interval.tick() as u32;
            assert!(start.elapsed() >= due * period);
            due += 1;
        }
        let late = Instant::now() + 10 * period;
        while Instant::now() < late {}
        assert!(interval.tick() >= 9);
    });
    end(runtime);
}

#[test]
fn an_interval_without_a_period_is_refused() {
    let message = support::panic_of(|| time::interval(Duration::ZERO));
    assert!(message.contains("must not be zero"), "{message}");
}

/// Timers belong to their worker. Even if its fibers are always busy, each timer fires in time.
#[test]
fn a_busy_worker_looks_at_its_timers() {
    let runtime = workers(1);
    runtime.run(|| {
        let slept = Arc::new(AtomicUsize::new(0));
        let count = slept.clone();
        let sleeper = daiko::spawn(move || {
            time::sleep(Duration::from_micros(50));
            count.store(1, Ordering::Relaxed);
        });
        support::yield_until("the sleeper", || slept.load(Ordering::Relaxed) == 1);
        sleeper.join().unwrap();
    });
    end(runtime);
}

#[test]
fn times_beyond_all_clocks_never_come() {
    let runtime = workers(1);
    runtime.run(|| {
        let sleeper = daiko::spawn(|| time::sleep(Duration::MAX));
        daiko::yield_now();
        assert!(!sleeper.is_finished());
        sleeper.cancel();
        assert!(matches!(sleeper.join(), Err(JoinError::Cancelled)));
    });
    end(runtime);
}

#[test]
fn a_park_ends_by_its_time_or_its_unpark() {
    everywhere(|| {
        let (start, short) = (Instant::now(), Duration::from_micros(50));
        daiko::park_timeout(short);
        assert!(start.elapsed() >= short);
        daiko::park_timeout(start + 2 * short);
        assert!(start.elapsed() >= 2 * short);
        daiko::current().unpark();
        daiko::park_timeout(LONG);
        let fiber = daiko::current();
        let other = daiko::spawn(move || fiber.unpark());
        daiko::park_timeout(Duration::MAX);
        other.join().unwrap();
    });
}

#[test]
fn a_park_that_timed_out_takes_the_unpark_that_has_come() {
    everywhere(|| {
        daiko::current().unpark();
        daiko::park_timeout(Duration::ZERO);
        let (start, short) = (Instant::now(), Duration::from_micros(50));
        daiko::park_timeout(short);
        assert!(start.elapsed() >= short, "the token was left");
    });
}

#[test]
fn an_unpark_that_meets_the_end_of_a_park_is_not_lost() {
    everywhere(|| {
        for lap in 0..300 {
            let come = Arc::new(AtomicUsize::new(0));
            let (fiber, comes) = (daiko::current(), come.clone());
            let other = daiko::spawn(move || {
                comes.store(1, Ordering::Release);
                fiber.unpark();
            });
            while come.load(Ordering::Acquire) == 0 {
                daiko::park_timeout(Duration::from_nanos(100 * (lap % 50)));
            }
            other.join().unwrap();
            // The token may be left: it ends this park, unless the park above has consumed it.
            daiko::park_timeout(Duration::ZERO);
        }
    });
}

#[test]
fn a_join_that_times_out_returns_the_handle() {
    let wait = || {
        let sleeper = daiko::spawn(|| time::sleep(LONG));
        let sleeper = sleeper.join_timeout(Duration::from_micros(20)).unwrap_err();
        let sleeper = sleeper.join_timeout(Instant::now()).unwrap_err();
        sleeper.cancel();
        assert!(matches!(sleeper.join_timeout(LONG).unwrap(), Err(JoinError::Cancelled)));
        let other = daiko::spawn(|| 7);
        assert_eq!(other.join_timeout(Duration::MAX).unwrap().unwrap(), 7);
    };
    everywhere(wait);
    wait();
}

#[test]
fn of_end_and_timeout_of_a_join_exactly_one_comes() {
    let race = || {
        let drops = Drops::default();
        for lap in 0..300 {
            let token = drops.token();
            let mut handle = daiko::spawn(move || {
                time::sleep(Duration::from_nanos(137 * (lap % 100)));
                token
            });
            let mut timeout = Duration::ZERO;
            loop {
                timeout += Duration::from_nanos(91);
                match handle.join_timeout(timeout) {
                    Ok(result) => break drop(result.unwrap()),
                    Err(again) => handle = again,
                }
            }
        }
        drops.assert_all();
    };
    everywhere(race);
    race();
}
