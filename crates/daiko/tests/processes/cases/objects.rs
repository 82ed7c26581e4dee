//! Waits of fibers of several processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use daiko::cancel::CancelToken;
use daiko::sync::{Barrier, Condvar, Event, Mutex, RwLock, Semaphore, channel};
use daiko::watch::{self, at_least};
use daiko::{Builder, JoinError, JoinHandle};

use super::{cross, processes, run_on_first, run_on_two};
use crate::End;

super::cases! {
    a_mutex_keeps_fibers_of_two_processes_apart End::Well,
    locks_and_permits_go_from_process_to_process End::Well,
    channels_carry_values_from_process_to_process End::Well,
    a_guard_goes_along End::Well,
    a_lock_freed_elsewhere_may_be_waited_for_again End::Well,
    sleepers_wake_in_time_wherever_they_went End::Well,
    scopes_are_waited_for End::Well,
    watched_words_are_seen_by_the_process_that_waits End::Well,
    blocking_calls_run_in_the_process_of_their_fiber End::Well,
    pollers_are_called_by_all_processes_and_end End::Well,
    the_maker_spawns_joins_unparks_and_cancels End::Well,
}

fn on_both<T: Send + 'static>(
    count: usize,
    f: impl Fn(usize) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let fiber = |i: usize| {
        let f = f.clone();
        Builder::new().on(i % 2).spawn(move || f(i)).unwrap()
    };
    let fibers: Vec<JoinHandle<T>> = (0..count).map(fiber).collect();
    fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
}

fn a_mutex_keeps_fibers_of_two_processes_apart() {
    run_on_two(|| {
        let count = Arc::new(Mutex::new(0_u64));
        let counted = count.clone();
        on_both(20, move |_| {
            for _ in 0..200 {
                let mut count = counted.lock().unwrap();
                let seen = *count;
                if seen.is_multiple_of(16) {
                    daiko::yield_now();
                }
                *count = seen + 1;
            }
        });
        assert_eq!(*count.lock().unwrap(), 4_000);
    });
}

fn locks_and_permits_go_from_process_to_process() {
    run_on_two(|| {
        let (lock, permits) = (Arc::new(RwLock::new(0)), Arc::new(Semaphore::new(2)));
        let (all, done) = (Arc::new(Barrier::new(8)), Arc::new(Event::manual()));
        let turn = Arc::new((Mutex::new(0), Condvar::new()));
        let ended = (turn.clone(), lock.clone(), done.clone());
        let fiber = move |i: usize| {
            all.wait();
            for _ in 0..50 {
                let _permit = permits.acquire();
                *lock.write().unwrap() += 1;
                daiko::yield_now();
                assert!(*lock.read().unwrap() > 0);
            }
            let (mutex, condvar) = &*turn;
            let mut whose = condvar.wait_while(mutex.lock().unwrap(), |whose| *whose != i).unwrap();
            *whose += 1;
            condvar.notify_all();
            drop(whose);
            if i == 7 { done.set() } else { done.wait() }
        };
        on_both(8, fiber);
        let (turn, lock, done) = ended;
        assert!(done.is_set());
        assert_eq!((*turn.0.lock().unwrap(), *lock.read().unwrap()), (8, 400));
    });
}

fn channels_carry_values_from_process_to_process() {
    run_on_two(|| {
        for bound in [0, 4, 1_000] {
            let (sender, receiver) = channel::bounded::<Box<u64>>(bound);
            let sums = Arc::new(AtomicU64::new(0));
            let (taken, got) = (Arc::new(receiver), sums.clone());
            let fiber = move |i: usize| {
                if i < 4 {
                    let sender = sender.clone();
                    (1..=250).for_each(|value| sender.send(Box::new(value)).unwrap());
                } else {
                    let sum: u64 = (0..250).map(|_| *taken.recv().unwrap()).sum();
                    got.fetch_add(sum, Ordering::Relaxed);
                }
            };
            on_both(8, fiber);
            assert_eq!(sums.load(Ordering::Relaxed), 4 * 250 * 251 / 2);
        }
    });
}

fn a_guard_goes_along() {
    run_on_first(|| {
        let value = Mutex::new(1);
        let mut guard = value.lock().unwrap();
        cross(0);
        *guard += 1;
        drop(guard);
        cross(1);
        assert_eq!(*value.lock().unwrap(), 2);
    });
}

/// Each process would remember the holder of a lock, and would not hear of it if the lock is freed
/// in another process.
fn a_lock_freed_elsewhere_may_be_waited_for_again() {
    run_on_first(|| {
        let (value, locked) = (Arc::new(Mutex::new(1)), Arc::new(AtomicUsize::new(0)));
        let guard = value.lock().unwrap();
        cross(0);
        drop(guard);
        cross(1);
        let (held, holds) = (value.clone(), locked.clone());
        let holder = move || {
            let mut value = held.lock().unwrap();
            holds.store(1, Ordering::Release);
            // Longer than waiters look before they sleep.
            std::thread::sleep(Duration::from_millis(20));
            *value += 1;
        };
        let holder = Builder::new().on(1).spawn(holder).unwrap();
        while locked.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(*value.lock().unwrap(), 2);
        holder.join().unwrap();
    });
}

fn sleepers_wake_in_time_wherever_they_went() {
    run_on_two(|| {
        let sleep = |i: usize| {
            let (start, time) = (Instant::now(), Duration::from_micros(200 * i as u64));
            daiko::time::sleep(time);
            assert!(start.elapsed() >= time);
            let timed_out = daiko::time::timeout(time, daiko::park);
            assert!(timed_out.is_err() && start.elapsed() >= 2 * time);
        };
        on_both(20, sleep);
    });
    run_on_first(|| {
        // The timer is armed on one worker, and disarmed from another.
        let crossed = daiko::time::timeout(Duration::from_secs(3600), || cross(0));
        assert_eq!(crossed, Ok(()));
    });
}

fn scopes_are_waited_for() {
    run_on_first(|| {
        let mut numbers = [0; 40];
        daiko::scope(|s| {
            for (i, number) in numbers.iter_mut().enumerate() {
                let body = move || {
                    daiko::yield_now();
                    *number = i;
                };
                Builder::new().on(i % 2).spawn_scoped(s, body).unwrap();
            }
        });
        assert!(numbers.iter().enumerate().all(|(i, &number)| number == i));
        let token = CancelToken::new();
        let ended = daiko::scope(|s| {
            let waiter = s.spawn(|| token.run(daiko::park).is_err());
            Builder::new().on(1).spawn_scoped(s, || token.cancel()).unwrap();
            waiter.join().unwrap()
        });
        assert!(ended);
    });
}

fn watched_words_are_seen_by_the_process_that_waits() {
    run_on_two(|| {
        let word = Arc::new(AtomicU64::new(0));
        let watched = word.clone();
        let waiters: Vec<_> = (0..8)
            .map(|i| {
                let word = watched.clone();
                let body = move || match i % 4 {
                    0 | 1 => watch::wait_until(&*word, at_least(1)),
                    _ => watch::wait_until_notified(&*word, at_least(1)),
                };
                Builder::new().on(i % 2).spawn(body).unwrap()
            })
            .collect();
        daiko::yield_now();
        word.store(3, Ordering::Release);
        watch::notify(&*word);
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap() == 3));
    });
}

fn blocking_calls_run_in_the_process_of_their_fiber() {
    run_on_two(|| {
        let call = |_| {
            let (here, text) = (std::process::id(), String::from("borrowed"));
            let (there, len) = daiko::blocking(|| (std::process::id(), text.len()));
            assert_eq!((there, len), (here, 8));
        };
        on_both(20, call);
        // One fiber after the other: threads of the other process are idle.
        for worker in [0, 1, 0, 1] {
            Builder::new().on(worker).spawn(move || call(worker)).unwrap().join().unwrap();
        }
    });
}

fn pollers_are_called_by_all_processes_and_end() {
    run_on_two(|| {
        let (calls, fiber) = (Arc::new(AtomicUsize::new(0)), daiko::current());
        let counted = calls.clone();
        let registration = daiko::agent::register(move || {
            if counted.fetch_add(1, Ordering::Relaxed) == 100 {
                fiber.unpark();
            }
            0
        });
        while calls.load(Ordering::Relaxed) <= 100 {
            daiko::park();
        }
        drop(registration);
        let last = calls.load(Ordering::Relaxed);
        daiko::time::sleep(Duration::from_millis(2));
        assert_eq!(calls.load(Ordering::Relaxed), last);
    });
}

fn the_maker_spawns_joins_unparks_and_cancels() {
    let runtime = processes(2).build().unwrap();
    for round in 0..100_u64 {
        let parked = runtime.spawn(move || {
            daiko::park();
            vec![round; 3]
        });
        let endless = runtime.spawn(|| daiko::time::sleep(Duration::from_secs(3600)));
        parked.fiber().unpark();
        assert_eq!(parked.join().unwrap(), [round; 3]);
        endless.cancel();
        assert!(matches!(endless.join(), Err(JoinError::Cancelled)));
    }
    super::end(runtime);
}
