//! Mutex and semaphore, between fibers, migratable fibers, threads, and all of them together.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::waits::{
    LONG, SHORT, everywhere, on_borrowed_thread_locals, on_one_worker, waiting,
};
use crate::support::{end, panic_of, until, workers, yield_until};
use daiko::sync::{Condvar, Mutex, RwLock, Semaphore, TimedLockError, TimedOut, TryLockError};
use daiko::{Builder, JoinError};

#[test]
fn a_mutex_is_one_holders() {
    let mutex = Arc::new(Mutex::new((0u64, 0u64)));
    let shared = mutex.clone();
    everywhere(3, move || {
        for round in 0..300 {
            let mut pair = shared.lock().unwrap();
            pair.0 += 1;
            if round % 8 == 0 && daiko::try_current().is_some() {
                daiko::yield_now();
            }
            pair.1 += 1;
            assert_eq!(pair.0, pair.1);
        }
    });
    assert_eq!(*mutex.lock().unwrap(), (4 * 9 * 300, 4 * 9 * 300));
}

/// The guards belong to the fiber, whichever worker runs it when it frees them.
#[test]
fn a_migratable_fiber_takes_its_guards_along() {
    let runtime = workers(2);
    let locks = Arc::new((Mutex::new(0), RwLock::new(0), RwLock::new(0)));
    let theirs = locks.clone();
    let body = move || {
        let mut held = (theirs.0.lock().unwrap(), theirs.1.write().unwrap(), theirs.2.read());
        let before = daiko_sys::thread::id();
        daiko::park();
        assert_ne!(before, daiko_sys::thread::id());
        (*held.0, *held.1) = (1, 1);
        assert_eq!(**held.2.as_ref().unwrap(), 0);
    };
    // SAFETY: the closure keeps nothing in thread-local storage over its suspension.
    let builder = Builder::new().on(0).migratable();
    let migratable = runtime.spawn_with(builder, body).unwrap();
    let hog = move || {
        yield_until("its guards", || locks.2.try_write().is_err());
        migratable.fiber().unpark();
        until("its end on another worker", || migratable.is_finished());
        migratable.join().unwrap();
        assert_eq!((*locks.0.lock().unwrap(), *locks.1.read().unwrap()), (1, 1));
        *locks.2.write().unwrap() = 1;
    };
    runtime.spawn_with(Builder::new().on(0), hog).unwrap().join().unwrap();
    end(runtime);
}

#[test]
fn a_locked_mutex_is_not_waited_for_longer_than_asked() {
    let runtime = workers(2);
    let mutex = Arc::new(Mutex::new(7));
    let asks = |mutex: &Mutex<i32>| {
        assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
        for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
            assert!(matches!(mutex.lock_timeout(timeout), Err(TimedLockError::TimedOut)));
        }
        assert!(matches!(mutex.lock_timeout(Instant::now()), Err(TimedLockError::TimedOut)));
    };
    let held = mutex.lock().unwrap();
    asks(&mutex);
    let theirs = mutex.clone();
    runtime.run(move || asks(&theirs));
    drop(held);
    assert_eq!(*mutex.lock_timeout(LONG).unwrap(), 7);
    assert_eq!(*mutex.try_lock().unwrap(), 7);
    end(runtime);
}

#[test]
fn a_lock_that_is_freed_in_time_is_had() {
    on_one_worker(|| {
        let mutex = Arc::new(Mutex::new(0));
        let held = mutex.lock().unwrap();
        let waiters: Vec<_> = [LONG, Duration::MAX]
            .map(|timeout| {
                let mutex = mutex.clone();
                waiting(move || *mutex.lock_timeout(timeout).unwrap() += 1)
            })
            .into();
        drop(held);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*mutex.lock().unwrap(), 2);
    });
}

#[test]
fn a_cancelled_waiter_takes_no_lock_along() {
    on_one_worker(|| {
        let mutex = Arc::new(Mutex::new(0));
        let held = mutex.lock().unwrap();
        let add = |mutex: Arc<Mutex<i32>>| move || *mutex.lock().unwrap() += 1;
        let [first, second] = [(); 2].map(|()| waiting(add(mutex.clone())));
        // Cancelled before, and after, the lock was freed for the waiter.
        first.cancel();
        drop(held);
        assert!(matches!(first.join(), Err(JoinError::Cancelled)));
        second.join().unwrap();
        let held = mutex.lock().unwrap();
        let [first, second] = [(); 2].map(|()| waiting(add(mutex.clone())));
        drop(held);
        first.cancel();
        let came = first.join().is_ok();
        second.join().unwrap();
        assert_eq!(*mutex.lock().unwrap(), 2 + i32::from(came));
        assert!(!mutex.is_poisoned());
    });
}

#[test]
fn a_panic_poisons_and_a_cancel_does_not() {
    on_one_worker(|| {
        let mutex = Arc::new(Mutex::new(1));
        let holder = mutex.clone();
        let holder = waiting(move || {
            let _held = holder.lock().unwrap();
            daiko::park();
        });
        holder.cancel();
        assert!(matches!(holder.join(), Err(JoinError::Cancelled)));
        assert_eq!(*mutex.lock().unwrap(), 1);
        let holder = mutex.clone();
        let panics = daiko::spawn(move || {
            let mut held = holder.lock().unwrap();
            *held = 2;
            panic::resume_unwind(Box::new(()));
        });
        assert!(matches!(panics.join(), Err(JoinError::Panicked(_))));
        assert_eq!(**mutex.lock().unwrap_err().get_ref(), 2);
        assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(mutex.lock_timeout(LONG), Err(TimedLockError::Poisoned(_))));
        mutex.clear_poison();
        assert_eq!(*mutex.lock().unwrap(), 2);
    });
}

#[test]
fn waiters_and_late_comers_find_the_poison_of_a_panicking_holder() {
    on_one_worker(|| {
        let mutex = Arc::new(Mutex::new(1));
        let holder = mutex.clone();
        let holder = waiting(move || {
            let _held = holder.lock().unwrap();
            daiko::park();
            panic::resume_unwind(Box::new(()));
        });
        let [first, second] = [(); 2].map(|()| {
            let mutex = mutex.clone();
            waiting(move || mutex.lock().is_err())
        });
        holder.fiber().unpark();
        assert!(matches!(holder.join(), Err(JoinError::Panicked(_))));
        assert!(first.join().unwrap() && second.join().unwrap(), "the waiters find it poisoned");
        assert!(mutex.is_poisoned() && mutex.lock().is_err());
        mutex.clear_poison();
        assert_eq!(*mutex.lock().unwrap(), 1);
    });
}

/// Suspends where it is dropped.
struct Suspends;

impl Drop for Suspends {
    fn drop(&mut self) {
        daiko::yield_now();
        daiko::yield_now();
    }
}

#[test]
fn a_neighbour_that_suspends_in_its_unwinding_poisons_nothing() {
    on_borrowed_thread_locals(|| {
        let mutex = Arc::new(Mutex::new(0));
        let held = mutex.lock().unwrap();
        let panics = waiting(|| {
            let _suspends = Suspends;
            panic::resume_unwind(Box::new(()));
        });
        assert!(thread::panicking() && !daiko::panicking());
        drop(held);
        assert!(!mutex.is_poisoned());
        assert!(matches!(panics.join(), Err(JoinError::Panicked(_))));
    });
}

#[test]
fn waits_inside_no_suspend_panic() {
    on_one_worker(|| {
        let mutex = Arc::new(Mutex::new(0));
        let holder = mutex.clone();
        let holder = waiting(move || {
            let _held = holder.lock().unwrap();
            daiko::park();
        });
        let message = panic_of(|| daiko::no_suspend(|| drop(mutex.lock())));
        assert!(message.contains("no_suspend"), "{message}");
        holder.fiber().unpark();
        holder.join().unwrap();
        assert!(!mutex.is_poisoned());
    });
}

#[test]
fn a_semaphore_lets_so_many_in() {
    let (semaphore, inside) = (Arc::new(Semaphore::new(3)), Arc::new(AtomicUsize::new(0)));
    let shared = semaphore.clone();
    everywhere(4, move || {
        for round in 0..100u32 {
            let count = 1 + round % 3;
            let permit = shared.acquire_many(count);
            let before = inside.fetch_add(count as usize, Ordering::Relaxed);
            assert!(before + count as usize <= 3, "{before} and {count} more are inside");
            if daiko::try_current().is_some() {
                daiko::yield_now();
            }
            inside.fetch_sub(count as usize, Ordering::Relaxed);
            drop(permit);
        }
    });
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn permits_that_do_not_come_are_not_waited_for_longer_than_asked() {
    let ask = || {
        let semaphore = Semaphore::new(1);
        assert!(semaphore.try_acquire(2).is_none());
        assert_eq!(semaphore.acquire_timeout(2, SHORT).unwrap_err(), TimedOut);
        assert_eq!(semaphore.acquire_timeout(2, Instant::now()).unwrap_err(), TimedOut);
        assert_eq!(semaphore.acquire_timeout(1, SHORT).unwrap().count(), 1);
        semaphore.acquire().forget();
        assert!(semaphore.try_acquire(1).is_none());
        semaphore.add_permits(2);
        assert_eq!(semaphore.acquire_many(2).count(), 2);
    };
    ask();
    let runtime = workers(2);
    runtime.run(ask);
    end(runtime);
}

#[test]
fn a_cancelled_waiter_takes_no_permit_along() {
    on_one_worker(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let acquire = |count| {
            let semaphore = semaphore.clone();
            waiting(move || drop(semaphore.acquire_many(count)))
        };
        // A waiter behind a waiter that leaves is served.
        let (first, second) = (acquire(2), acquire(1));
        semaphore.add_permits(1);
        first.cancel();
        second.join().unwrap();
        assert!(matches!(first.join(), Err(JoinError::Cancelled)));
        // A cancelled waiter that has been served already gives its permits back.
        let first = {
            let held = semaphore.acquire();
            let first = acquire(1);
            drop(held);
            first
        };
        first.cancel();
        let _ = first.join();
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn too_many_permits_are_refused_by_name() {
    assert!(panic_of(|| Semaphore::new(Semaphore::MAX_PERMITS + 1)).contains("MAX_PERMITS"));
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    assert!(panic_of(|| semaphore.add_permits(1)).contains("MAX_PERMITS"));
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
}

#[test]
fn the_end_of_a_runtime_unwinds_waiters() {
    let runtime = workers(1);
    let shared = Arc::new((Mutex::new(()), Condvar::new(), Semaphore::new(0)));
    let there = Arc::new(AtomicUsize::new(0));
    let held = shared.0.lock().unwrap();
    let other = Arc::new(Mutex::new(()));
    for place in 0..3 {
        let (shared, there, other) = (shared.clone(), there.clone(), other.clone());
        drop(runtime.spawn(move || {
            there.fetch_add(1, Ordering::Release);
            match place {
                0 => drop(shared.0.lock()),
                1 => drop(shared.1.wait(other.lock().unwrap())),
                _ => drop(shared.2.acquire()),
            }
        }));
    }
    until("all of them", || there.load(Ordering::Acquire) == 3);
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (3, 0));
    drop(held);
    assert!(shared.0.try_lock().is_ok() && other.try_lock().is_ok());
}

#[test]
fn values_come_back_out_of_a_mutex() {
    let mut mutex = Mutex::from(String::from("a"));
    mutex.get_mut().unwrap().push('b');
    assert_eq!(format!("{mutex:?}"), r#"Mutex { value: "ab", poisoned: false, .. }"#);
    let held = mutex.lock().unwrap();
    assert_eq!(format!("{mutex:?}"), "Mutex { value: <locked>, poisoned: false, .. }");
    drop(held);
    assert_eq!(mutex.into_inner().unwrap(), "ab");
    let poisoned = Mutex::new(1);
    let _ = panic::catch_unwind(AssertUnwindSafe(|| {
        let _held = poisoned.lock().unwrap();
        panic::resume_unwind(Box::new(()));
    }));
    assert_eq!(poisoned.into_inner().unwrap_err().into_inner(), 1);
}

/// Tests as many waiters as the queue has room for; the holder of the lock ends all waits.
#[test]
fn ten_thousand_fibers_wait_for_one_lock() {
    let runtime = workers(2);
    runtime.run(|| {
        let mutex = Arc::new(Mutex::new(0));
        let (held, there) = (mutex.lock().unwrap(), Arc::new(AtomicUsize::new(0)));
        let waiters: Vec<_> = (0..10_000)
            .map(|_| {
                let (mutex, there) = (mutex.clone(), there.clone());
                daiko::spawn(move || {
                    there.fetch_add(1, Ordering::Release);
                    *mutex.lock().unwrap() += 1;
                })
            })
            .collect();
        yield_until("all waiters", || there.load(Ordering::Acquire) == 10_000);
        drop(held);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*mutex.lock().unwrap(), 10_000);
    });
    end(runtime);
}
