//! Locks that block the worker, and `std`'s own park, over suspensions.

use std::collections::HashSet;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use daiko::sync::Event;
use daiko::{Builder, Runtime};
use daiko_libraries::{FIBERS, everywhere, hundred, hundred_in};

/// The state that the fibers of [`a_worker_blocks`] share.
struct Signals {
    /// The holder has the lock, has suspended once, and keeps worker 1.
    is_held: AtomicBool,
    /// The waiter is about to block worker 0.
    is_blocking: AtomicBool,
    /// The holder shall release the lock.
    release: Event,
    /// Steps of the pinned and of the migratable fiber of worker 0.
    pinned: AtomicUsize,
    migratable: AtomicUsize,
    /// Both shall end.
    is_over: AtomicBool,
}

impl Signals {
    fn new() -> Self {
        Signals {
            is_held: AtomicBool::new(false),
            is_blocking: AtomicBool::new(false),
            release: Event::manual(),
            pinned: AtomicUsize::new(0),
            migratable: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn step_until_over(&self, steps: &AtomicUsize) {
        while !self.is_over.load(Ordering::Acquire) {
            steps.fetch_add(1, Ordering::AcqRel);
            daiko::yield_now();
        }
    }

    fn hold(&self) {
        daiko::yield_now();
        self.is_held.store(true, Ordering::Release);
        // Worker 1 takes no fiber away from worker 0 before that one blocks.
        while !self.is_blocking.load(Ordering::Acquire) {
            spin_loop();
        }
        self.release.wait();
    }
}

fn until(come: impl Fn() -> bool) {
    while !come() {
        thread::yield_now();
    }
}

/// Takes a lock, and calls the function while it is held.
type Locked = fn(&dyn Fn());
/// A fiber of [`a_worker_blocks`].
type Body = fn(&Signals, Locked);

/// Calls `lock` with the part of its holder, to run while the lock is held, in a fiber of worker 1;
/// then with nothing in a pinned fiber of worker 0, which therefore blocks its worker.
fn a_worker_blocks(lock: Locked) {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let signals = Arc::new(Signals::new());
    let spawn = |builder: Builder, body: Body| {
        let signals = signals.clone();
        runtime.spawn_with(builder, move || body(&signals, lock)).unwrap()
    };
    let mut fibers =
        vec![spawn(Builder::new().pinned().on(1), |signals, lock| lock(&|| signals.hold()))];
    until(|| signals.is_held.load(Ordering::Acquire));
    fibers.push(spawn(Builder::new().pinned().on(0), |signals, _| {
        signals.step_until_over(&signals.pinned)
    }));
    let mover = Builder::new().migratable().on(0);
    fibers.push(spawn(mover, |signals, _| signals.step_until_over(&signals.migratable)));
    let steps = |of: &AtomicUsize| of.load(Ordering::Acquire);
    until(|| steps(&signals.pinned) > 0 && steps(&signals.migratable) > 0);
    fibers.push(spawn(Builder::new().pinned().on(0), |signals, lock| {
        // Started here, so it is the worker's to start.
        let unstarted = daiko::spawn(|| ());
        signals.is_blocking.store(true, Ordering::Release);
        lock(&|| ());
        unstarted.join().unwrap();
    }));
    until(|| signals.is_blocking.load(Ordering::Acquire));
    let (pinned, migratable) = (steps(&signals.pinned), steps(&signals.migratable));
    until(|| steps(&signals.migratable) > migratable + 1);
    let unstarted = (0..10).map(|_| runtime.spawn(|| ()));
    unstarted.for_each(|fiber| fiber.join().unwrap());
    assert_eq!(steps(&signals.pinned), pinned, "worker 0 is blocked");
    signals.release.set();
    until(|| steps(&signals.pinned) > pinned);
    signals.is_over.store(true, Ordering::Release);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (0, 0));
}

#[test]
fn a_worker_that_waits_for_a_lock_of_std_is_relieved() {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    a_worker_blocks(|body| {
        let _held = LOCK.lock().unwrap();
        body();
    });
}

#[test]
fn a_worker_that_waits_for_a_lock_of_parking_lot_is_relieved() {
    static LOCK: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    a_worker_blocks(|body| {
        let _held = LOCK.lock();
        body();
    });
}

/// Each fiber holds its own, so none waits; a migratable fiber releases them on another worker.
#[test]
fn locks_are_held_over_suspensions() {
    hundred(|member| {
        let (of_std, other) = (std::sync::Mutex::new(0), parking_lot::RwLock::new(0));
        let (mut of_std, mut other) = (of_std.lock().unwrap(), other.write());
        member.meet();
        *of_std += 1;
        member.stagger();
        *other += *of_std;
        assert_eq!((*of_std, *other), (1, 1));
    });
}

/// Such a lock knows its holder by the address of a thread-local.
#[test]
fn a_reentrant_lock_belongs_to_its_fiber() {
    everywhere(|runtime, kind| {
        let lock = Arc::new(parking_lot::ReentrantMutex::new(()));
        let got = hundred_in(runtime, kind, move |member| {
            let held = lock.try_lock();
            member.meet();
            let again = lock.try_lock();
            assert_eq!(held.is_some(), again.is_some(), "only the holder gets it again");
            member.meet();
            held.is_some()
        });
        assert_eq!(got.into_iter().filter(|&got| got).count(), 1);
    });
}

#[test]
fn critical_sections_of_blocking_locks_exclude_each_other() {
    everywhere(|runtime, kind| {
        let counts = Arc::new((std::sync::Mutex::new(0), parking_lot::Mutex::new(0)));
        let counted = counts.clone();
        hundred_in(runtime, kind, move |member| {
            for _ in 0..10 {
                *counted.0.lock().unwrap() += 1;
                *counted.1.lock() += 1;
                member.stagger();
            }
        });
        assert_eq!((*counts.0.lock().unwrap(), *counts.1.lock()), (10 * FIBERS, 10 * FIBERS));
    });
}

#[test]
fn each_fiber_has_a_thread_with_an_id_of_its_own() {
    let mut ids = HashSet::new();
    everywhere(|runtime, kind| {
        for _ in 0..2 {
            for (before, after, thread) in hundred_in(runtime, kind, |member| {
                let before = thread::current().id();
                member.meet();
                (before, thread::current().id(), thread::current())
            }) {
                assert_eq!((before, thread.id()), (after, after));
                assert!(ids.insert(before), "a new fiber has the id of an earlier one");
            }
        }
    });
    assert!(!ids.contains(&thread::current().id()));
}

/// A token that comes early belongs to the fiber for which it was meant.
#[test]
fn the_token_of_a_thread_waits_for_its_fiber() {
    hundred(|member| {
        thread::current().unpark();
        member.meet();
        thread::park();
    });
}

#[test]
fn threads_unpark_a_fiber_that_blocks_its_worker() {
    everywhere(|runtime, kind| {
        let (send, receive) = mpsc::channel();
        let fiber = runtime.spawn_with(kind(), move || {
            for step in 0..20 {
                daiko::yield_now();
                let is_told = Arc::new(AtomicBool::new(false));
                send.send((thread::current(), is_told.clone(), step)).unwrap();
                while !is_told.load(Ordering::Acquire) {
                    thread::park();
                }
            }
        });
        for (expected, (thread, is_told, step)) in receive.into_iter().enumerate() {
            assert_eq!(step, expected);
            is_told.store(true, Ordering::Release);
            thread.unpark();
        }
        fiber.unwrap().join().unwrap();
    });
}
