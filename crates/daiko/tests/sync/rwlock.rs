//! The read-write lock, between fibers, migratable fibers, threads, and all of them together.

use std::panic::{self, AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::waits::{LONG, SHORT, everywhere, on_one_worker, waiting};
use crate::support::{self, end, panic_of, until, workers};
use daiko::sync::{RwLock, RwLockWriteGuard, TimedLockError, TryLockError};
use daiko::{JoinError, JoinHandle};

#[test]
fn a_writer_is_alone_and_its_write_is_seen() {
    let lock = Arc::new(RwLock::new((0u64, 0u64)));
    let shared = lock.clone();
    everywhere(3, move || {
        let mut last = 0;
        for round in 0..300 {
            if round % 4 != 0 {
                let pair = shared.read().unwrap();
                assert!(pair.0 == pair.1 && pair.0 >= last, "{last} was seen before {pair:?}");
                last = pair.0;
                continue;
            }
            let mut pair = shared.write().unwrap();
            pair.0 += 1;
            if round % 8 == 0 && daiko::try_current().is_some() {
                daiko::yield_now();
            }
            pair.1 += 1;
        }
    });
    assert_eq!(*lock.read().unwrap(), (4 * 9 * 75, 4 * 9 * 75));
}

/// Spawns a reader on the caller's only worker; returns once it waits. The reader returns the value
/// that it read.
fn reader(lock: &Arc<RwLock<i32>>) -> JoinHandle<i32> {
    let lock = lock.clone();
    waiting(move || *lock.read().unwrap())
}

/// Spawns a writer that adds 1, likewise.
fn writer(lock: &Arc<RwLock<i32>>) -> JoinHandle<()> {
    let lock = lock.clone();
    waiting(move || *lock.write().unwrap() += 1)
}

#[test]
fn readers_are_beside_each_other_and_keep_writers_out() {
    on_one_worker(|| {
        let lock = Arc::new(RwLock::new(7));
        let readers = [lock.read().unwrap(), lock.try_read().unwrap()];
        assert_eq!(reader(&lock).join().unwrap(), 7);
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        drop(readers);
        assert_eq!(*lock.try_write().unwrap(), 7);
        let held = lock.write().unwrap();
        assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        drop(held);
    });
}

#[test]
fn a_writer_waits_only_for_earlier_readers() {
    on_one_worker(|| {
        let lock = Arc::new(RwLock::new(0));
        let held = lock.read().unwrap();
        let writer = writer(&lock);
        assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)), "behind the writer");
        let late = reader(&lock);
        daiko::yield_now();
        assert!(!writer.is_finished() && !late.is_finished());
        drop(held);
        assert_eq!(late.join().unwrap(), 1);
        writer.join().unwrap();
    });
}

#[test]
fn readers_that_waited_together_enter_together() {
    on_one_worker(|| {
        let (lock, inside) = (Arc::new(RwLock::new(0)), Arc::new(AtomicUsize::new(0)));
        let held = lock.write().unwrap();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (lock, inside) = (lock.clone(), inside.clone());
                waiting(move || {
                    let _held = lock.read().unwrap();
                    inside.fetch_add(1, Ordering::Relaxed);
                    daiko::park();
                })
            })
            .collect();
        drop(held);
        support::yield_until("all readers", || inside.load(Ordering::Relaxed) == 3);
        readers.into_iter().for_each(|reader| {
            reader.fiber().unpark();
            reader.join().unwrap();
        });
        assert!(lock.try_write().is_ok());
    });
}

#[test]
fn a_writer_goes_on_as_a_reader_without_another_in_between() {
    on_one_worker(|| {
        let lock = Arc::new(RwLock::new(0));
        let mut held = lock.write().unwrap();
        let (first, writer, last) = (reader(&lock), writer(&lock), reader(&lock));
        *held = 5;
        let held = RwLockWriteGuard::downgrade(held);
        assert_eq!(first.join().unwrap(), 5);
        daiko::yield_now();
        assert!(*held == 5 && !writer.is_finished() && !last.is_finished());
        drop(held);
        writer.join().unwrap();
        assert_eq!(last.join().unwrap(), 6);
        let read = RwLockWriteGuard::downgrade(lock.write().unwrap());
        assert!(lock.try_read().is_ok() && lock.try_write().is_err());
        drop(read);
        assert!(lock.try_write().is_ok());
    });
}

#[test]
fn waits_end_by_their_timeouts() {
    let reads = |lock: &RwLock<i32>| {
        for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
            assert!(matches!(lock.read_timeout(timeout), Err(TimedLockError::TimedOut)));
        }
        assert!(matches!(lock.read_timeout(Instant::now()), Err(TimedLockError::TimedOut)));
    };
    let writes = |lock: &RwLock<i32>| {
        for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
            assert!(matches!(lock.write_timeout(timeout), Err(TimedLockError::TimedOut)));
        }
        assert!(matches!(lock.write_timeout(Instant::now()), Err(TimedLockError::TimedOut)));
    };
    let (runtime, lock) = (workers(2), Arc::new(RwLock::new(7)));
    let held = lock.write().unwrap();
    reads(&lock);
    writes(&lock);
    let theirs = lock.clone();
    runtime.run(move || {
        reads(&theirs);
        writes(&theirs);
    });
    let held = RwLockWriteGuard::downgrade(held);
    writes(&lock);
    let theirs = lock.clone();
    runtime.run(move || {
        writes(&theirs);
        assert_eq!(*theirs.read_timeout(Duration::ZERO).unwrap(), 7);
    });
    drop(held);
    assert_eq!(*lock.write_timeout(Duration::ZERO).unwrap(), 7);
    end(runtime);
}

#[test]
fn a_lock_that_is_freed_in_time_is_had() {
    on_one_worker(|| {
        let lock = Arc::new(RwLock::new(0));
        let held = lock.write().unwrap();
        let waiters: Vec<_> = [LONG, Duration::MAX]
            .map(|timeout| {
                let (reads, writes) = (lock.clone(), lock.clone());
                let read = waiting(move || drop(reads.read_timeout(timeout).unwrap()));
                [read, waiting(move || *writes.write_timeout(timeout).unwrap() += 1)]
            })
            .into_iter()
            .flatten()
            .collect();
        drop(held);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*lock.read().unwrap(), 2);
    });
}

#[test]
fn a_cancelled_waiter_holds_no_other_up() {
    on_one_worker(|| {
        let lock = Arc::new(RwLock::new(0));
        // If a waiting writer leaves, the readers behind it get the lock.
        let held = lock.read().unwrap();
        let (leaves, stays) = (writer(&lock), reader(&lock));
        leaves.cancel();
        assert_eq!(stays.join().unwrap(), 0);
        assert!(matches!(leaves.join(), Err(JoinError::Cancelled)));
        drop(held);
        // A cancelled waiter that has the lock already gives it back, or returns with it.
        for (write, freed_first) in [(false, false), (false, true), (true, false), (true, true)] {
            let held = lock.write().unwrap();
            let theirs = lock.clone();
            let leaves = match write {
                false => waiting(move || drop(theirs.read())),
                true => waiting(move || drop(theirs.write())),
            };
            if freed_first {
                drop(held);
                leaves.cancel();
            } else {
                leaves.cancel();
                drop(held);
            }
            let ended = leaves.join();
            assert!(freed_first || matches!(ended, Err(JoinError::Cancelled)));
            assert_eq!(*lock.try_write().unwrap(), 0);
        }
        assert!(!lock.is_poisoned());
    });
}

#[test]
fn only_a_writer_that_panics_poisons() {
    let panics = |body: &dyn Fn()| {
        let body = AssertUnwindSafe(|| {
            body();
        });
        panic::catch_unwind(body).unwrap_err();
    };
    on_one_worker(move || {
        let lock = Arc::new(RwLock::new(1));
        let theirs = lock.clone();
        let holder = waiting(move || {
            let _held = theirs.write().unwrap();
            daiko::park();
        });
        holder.cancel();
        assert!(matches!(holder.join(), Err(JoinError::Cancelled)));
        panics(&|| {
            let _held = lock.read().unwrap();
            panic::resume_unwind(Box::new(()));
        });
        panics(&|| {
            let _held = RwLockWriteGuard::downgrade(lock.write().unwrap());
            panic::resume_unwind(Box::new(()));
        });
        assert!(!lock.is_poisoned());
        panics(&|| {
            *lock.write().unwrap() += 1;
            let _held = lock.write().unwrap();
            panic::resume_unwind(Box::new(()));
        });
        assert_eq!(**lock.read().unwrap_err().get_ref(), 2);
        assert_eq!(**lock.write().unwrap_err().get_ref(), 2);
        assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(lock.try_write(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(lock.read_timeout(LONG), Err(TimedLockError::Poisoned(_))));
        assert!(matches!(lock.write_timeout(LONG), Err(TimedLockError::Poisoned(_))));
        lock.clear_poison();
        assert_eq!(*lock.read().unwrap(), 2);
    });
}

/// Takes the lock for writing where it is dropped.
struct Writes<'l>(&'l RwLock<i32>);

impl Drop for Writes<'_> {
    fn drop(&mut self) {
        *self.0.write().unwrap() += 1;
    }
}

#[test]
fn a_writer_that_was_panicking_before_poisons_nothing() {
    let lock = RwLock::new(0);
    let panics = AssertUnwindSafe(|| {
        let _writes = Writes(&lock);
        panic::resume_unwind(Box::new(()));
    });
    panic::catch_unwind(panics).unwrap_err();
    assert_eq!(*lock.read().unwrap(), 1);
}

#[test]
fn waits_inside_no_suspend_panic() {
    on_one_worker(|| {
        let lock = Arc::new(RwLock::new(0));
        let theirs = lock.clone();
        let writer = waiting(move || {
            let _held = theirs.write().unwrap();
            daiko::park();
        });
        let message = panic_of(|| daiko::no_suspend(|| drop(lock.read())));
        assert!(message.contains("no_suspend"), "{message}");
        let message = panic_of(|| daiko::no_suspend(|| drop(lock.write())));
        assert!(message.contains("no_suspend"), "{message}");
        writer.fiber().unpark();
        writer.join().unwrap();
        daiko::no_suspend(|| assert!(lock.read().is_ok() && lock.write().is_ok()));
    });
}

#[test]
fn the_end_of_a_runtime_unwinds_waiters() {
    let (runtime, lock) = (workers(1), Arc::new(RwLock::new(())));
    let there = Arc::new(AtomicUsize::new(0));
    let held = lock.write().unwrap();
    for write in [false, true] {
        let (lock, there) = (lock.clone(), there.clone());
        drop(runtime.spawn(move || {
            there.fetch_add(1, Ordering::Release);
            if write { drop(lock.write()) } else { drop(lock.read()) }
        }));
    }
    until("both", || there.load(Ordering::Acquire) == 2);
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (2, 0));
    drop(held);
    assert!(lock.try_write().is_ok());
}

#[test]
fn it_may_be_shared_as_that_of_std() {
    fn shared<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    shared::<RwLock<i32>>();
}

#[test]
fn values_come_back_out_of_a_lock() {
    let mut lock = RwLock::from(String::from("a"));
    lock.get_mut().unwrap().push('b');
    assert_eq!(format!("{lock:?}"), r#"RwLock { value: "ab", poisoned: false, .. }"#);
    let held = lock.write().unwrap();
    assert_eq!(format!("{lock:?}"), "RwLock { value: <locked>, poisoned: false, .. }");
    drop(held);
    assert_eq!(lock.into_inner().unwrap(), "ab");
    let poisoned = RwLock::<i32>::default();
    let _ = panic::catch_unwind(|| {
        let _held = poisoned.write().unwrap();
        panic::resume_unwind(Box::new(()));
    });
    assert_eq!(poisoned.into_inner().unwrap_err().into_inner(), 0);
}

#[test]
fn a_fiber_and_a_thread_wait_for_each_other() {
    let (runtime, lock) = (workers(1), Arc::new(RwLock::new(0u32)));
    let (begun, theirs) = (Arc::new(AtomicBool::new(false)), lock.clone());
    let begins = begun.clone();
    let held = lock.write().unwrap();
    let fiber = runtime.spawn(move || {
        begins.store(true, Ordering::Release);
        for _ in 0..200 {
            *theirs.write().unwrap() += 1;
        }
    });
    until("the fiber", || begun.load(Ordering::Acquire));
    drop(held);
    for _ in 0..200 {
        *lock.write().unwrap() += 1;
        assert!(*lock.read().unwrap() > 0);
    }
    fiber.join().unwrap();
    assert_eq!(*lock.read().unwrap(), 400);
    end(runtime);
}
