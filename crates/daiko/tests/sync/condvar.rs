//! Condition variables, between fibers, migratable fibers, threads, and all of them together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::waits::{LONG, SHORT, everywhere, on_one_worker, waiting};
use crate::support::{end, panic_of, workers, yield_until};
use daiko::JoinError;
use daiko::sync::{Condvar, Mutex, MutexGuard};

#[test]
fn a_queue_of_mutex_and_condvar_loses_and_doubles_nothing() {
    const EACH: usize = 200;
    let queue = Arc::new((Mutex::new(VecDeque::new()), Condvar::new(), Condvar::new()));
    let (sum, turn) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (shared, sums) = (queue.clone(), sum.clone());
    everywhere(2, move || {
        let (items, filled, emptied) = &*shared;
        // Of each six callers two are pinned, two migratable fibers, two threads: half of them
        // produce.
        if turn.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
            for value in 1..=EACH {
                let full = |items: &mut VecDeque<usize>| items.len() == 4;
                let mut items = emptied.wait_while(items.lock().unwrap(), full).unwrap();
                items.push_back(value);
                drop(items);
                filled.notify_one();
            }
        } else {
            for _ in 0..EACH {
                let empty = |items: &mut VecDeque<usize>| items.is_empty();
                let mut items = filled.wait_while(items.lock().unwrap(), empty).unwrap();
                sums.fetch_add(items.pop_front().unwrap(), Ordering::Relaxed);
                emptied.notify_all();
            }
        }
    });
    assert!(queue.0.lock().unwrap().is_empty());
    assert_eq!(sum.load(Ordering::Relaxed), 4 * 3 * EACH * (EACH + 1) / 2);
}

#[test]
fn a_condition_is_not_waited_for_longer_than_asked() {
    let ask = || {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let (guard, result) = condvar.wait_timeout(mutex.lock().unwrap(), SHORT).unwrap();
        assert!(result.timed_out());
        let (guard, result) = condvar.wait_timeout(guard, Instant::now()).unwrap();
        assert!(result.timed_out());
        let (guard, result) = condvar.wait_timeout_while(guard, SHORT, |()| true).unwrap();
        assert!(result.timed_out());
        let (_, result) = condvar.wait_timeout_while(guard, SHORT, |()| false).unwrap();
        assert!(!result.timed_out());
    };
    ask();
    let runtime = workers(2);
    runtime.run(ask);
    end(runtime);
}

#[test]
fn a_waiter_notified_while_the_mutex_is_held_waits_for_it() {
    on_one_worker(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let shared = shared.clone();
                waiting(move || *shared.1.wait(shared.0.lock().unwrap()).unwrap() += 1)
            })
            .collect();
        let guard = shared.0.lock().unwrap();
        shared.1.notify_all();
        daiko::yield_now();
        assert_eq!(*guard, 0);
        drop(guard);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*shared.0.lock().unwrap(), 3);
    });
}

#[test]
fn a_waiter_cancelled_after_a_notification_passes_it_on() {
    on_one_worker(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let [first, second] = [(); 2].map(|()| {
            let shared = shared.clone();
            waiting(move || *shared.1.wait(shared.0.lock().unwrap()).unwrap() += 1)
        });
        let guard = shared.0.lock().unwrap();
        // A thread notifies, so that the first waiter now waits for the mutex: the notification by
        // a neighbour would wake it.
        let theirs = shared.clone();
        thread::spawn(move || theirs.1.notify_one()).join().unwrap();
        first.cancel();
        drop(guard);
        assert!(matches!(first.join(), Err(JoinError::Cancelled)));
        second.join().unwrap();
        assert_eq!(*shared.0.lock().unwrap(), 1);
    });
}

#[test]
fn a_condvar_has_one_mutex_at_a_time() {
    on_one_worker(|| {
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        let theirs = shared.clone();
        let waiter = waiting(move || drop(theirs.1.wait(theirs.0.lock().unwrap())));
        let other = Mutex::new(());
        let message = panic_of(|| shared.1.wait(other.lock().unwrap()).map(drop));
        assert!(message.contains("two mutexes"), "{message}");
        shared.1.notify_one();
        waiter.join().unwrap();
        let third = Mutex::new(());
        assert!(shared.1.wait_timeout(third.lock().unwrap(), SHORT).unwrap().1.timed_out());
    });
}

#[test]
fn a_fiber_and_a_thread_hand_over_to_each_other() {
    let runtime = workers(1);
    let shared = Arc::new((Mutex::new(0u32), Condvar::new()));
    let turns = |mine: u32, shared: Arc<(Mutex<u32>, Condvar)>| {
        move || {
            let mut turn = shared.0.lock().unwrap();
            for _ in 0..200 {
                turn = shared.1.wait_while(turn, |turn| *turn % 2 != mine).unwrap();
                *turn += 1;
                shared.1.notify_one();
            }
        }
    };
    let fiber = runtime.spawn(turns(0, shared.clone()));
    turns(1, shared.clone())();
    fiber.join().unwrap();
    assert_eq!(*shared.0.lock().unwrap(), 400);
    end(runtime);
}

/// The number of turns taken: `taken` for the players, `seen` for a fiber that does not wait for
/// the mutex.
#[derive(Default)]
struct Turns {
    taken: Mutex<u32>,
    changed: Condvar,
    seen: AtomicU32,
}

/// Takes `times` turns. Waits, by `wait`, for each turn that is `mine` of two, and gives the next
/// turn to the other player.
fn take_turns(
    turns: &Turns,
    mine: u32,
    times: u32,
    wait: for<'t> fn(&Condvar, MutexGuard<'t, u32>) -> MutexGuard<'t, u32>,
) {
    let mut taken = turns.taken.lock().unwrap();
    for _ in 0..times {
        while *taken % 2 != mine {
            taken = wait(&turns.changed, taken);
        }
        *taken += 1;
        turns.seen.store(*taken, Ordering::Relaxed);
        turns.changed.notify_one();
    }
}

#[test]
fn neighbours_take_turns_however_they_wait() {
    on_one_worker(|| {
        let turns = Arc::new(Turns::default());
        let theirs = turns.clone();
        let other = waiting(move || {
            take_turns(&theirs, 1, 200, |condvar, turn| condvar.wait(turn).unwrap());
        });
        take_turns(&turns, 0, 200, |condvar, turn| condvar.wait_timeout(turn, LONG).unwrap().0);
        other.join().unwrap();
        assert_eq!(*turns.taken.lock().unwrap(), 400);
    });
}

/// Neighbours hand the mutex directly to each other, but not while another fiber waits for it.
#[test]
fn neighbours_that_take_turns_do_not_keep_the_mutex() {
    const TIMES: u32 = 5_000;
    on_one_worker(|| {
        let turns = Arc::new(Turns::default());
        let (theirs, thirds) = (turns.clone(), turns.clone());
        let third = waiting(move || {
            yield_until("some turns", || thirds.seen.load(Ordering::Relaxed) > 10);
            *thirds.taken.lock().unwrap()
        });
        let other = waiting(move || {
            take_turns(&theirs, 1, TIMES, |condvar, turn| condvar.wait(turn).unwrap());
        });
        take_turns(&turns, 0, TIMES, |condvar, turn| condvar.wait(turn).unwrap());
        other.join().unwrap();
        let seen = third.join().unwrap();
        assert!(seen < TIMES, "it had the mutex only after {seen} turns");
    });
}

#[test]
fn a_cancelled_waiter_that_is_handed_the_mutex_frees_it() {
    on_one_worker(|| {
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        let theirs = shared.clone();
        let waiter = waiting(move || drop(theirs.1.wait(theirs.0.lock().unwrap())));
        let guard = shared.0.lock().unwrap();
        waiter.cancel();
        shared.1.notify_one();
        // The cancelled waiter passes the notification on.
        drop(shared.1.wait(guard).unwrap());
        assert!(matches!(waiter.join(), Err(JoinError::Cancelled)));
        assert!(shared.0.try_lock().is_ok());
    });
}

#[test]
fn a_notified_waiter_that_went_on_inherits_nothing() {
    on_one_worker(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let theirs = shared.clone();
        let other = waiting(move || {
            drop(theirs.1.wait(theirs.0.lock().unwrap()).unwrap());
            daiko::park();
            *theirs.0.lock().unwrap() += 1;
            theirs.1.notify_one();
        });
        let guard = shared.0.lock().unwrap();
        shared.1.notify_one();
        drop(guard);
        daiko::yield_now();
        other.fiber().unpark();
        let (sum, ended) =
            shared.1.wait_timeout(shared.0.lock().unwrap(), Duration::from_secs(20)).unwrap();
        assert!(!ended.timed_out() && *sum == 1);
        drop(sum);
        other.join().unwrap();
    });
}
