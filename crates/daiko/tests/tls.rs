//! Fibers that borrow their worker's thread-local storage. These tests show the consequences.

mod support;

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use daiko::sync::Event;
use daiko::{Builder, JoinError, Runtime, RuntimeBuilder, ShutdownReport};
use support::child::emulated::LinuxPart;
use support::{Drops, OnDrop, Token, panic_of, run_on, until, yield_until};

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

/// A runtime of `count` workers whose fibers borrow their thread-locals.
fn borrowed(count: usize) -> RuntimeBuilder {
    // SAFETY: the fibers of these tests keep references to thread-locals of plain cells only, which
    // are initialized without a suspension.
    unsafe { Runtime::builder().workers(count).borrowed() }
}

#[test]
fn contents_interleave_between_fibers_of_a_worker() {
    run_on(borrowed(1), || {
        let (set, reset) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (tell, told) = (set.clone(), reset.clone());
        let first = daiko::spawn(move || {
            SEEN.set(1);
            tell.store(true, Ordering::Release);
            yield_until("the second", || told.load(Ordering::Acquire));
            SEEN.get()
        });
        let second = daiko::spawn(move || {
            yield_until("the first", || set.load(Ordering::Acquire));
            let before = SEEN.replace(2);
            reset.store(true, Ordering::Release);
            daiko::yield_now();
            (before, SEEN.get())
        });
        assert_eq!(first.join().unwrap(), 2, "the value that the second fiber left there");
        assert_eq!(second.join().unwrap(), (1, 2), "the value that the first fiber left there");
    });
}

#[test]
fn workers_have_contents_of_their_own() {
    run_on(borrowed(2), || {
        let set = |worker: usize, value| Builder::new().on(worker).spawn(move || SEEN.set(value));
        let get = |worker: usize| Builder::new().on(worker).spawn(|| SEEN.get());
        set(0, 10).unwrap().join().unwrap();
        set(1, 11).unwrap().join().unwrap();
        assert_eq!(get(0).unwrap().join().unwrap(), 10);
        assert_eq!(get(1).unwrap().join().unwrap(), 11);
    });
}

/// The address belongs to the worker, so that a reference taken before a suspension stays valid.
#[test]
fn addresses_stay_with_pinned_fibers() {
    run_on(borrowed(2), || {
        let fibers: Vec<_> = (0..100)
            .map(|_| {
                daiko::spawn(|| {
                    SEEN.with(|seen| {
                        for _ in 0..20 {
                            daiko::yield_now();
                            assert!(SEEN.with(|again| std::ptr::eq(seen, again)));
                        }
                    });
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn no_suspend_keeps_others_out() {
    run_on(Runtime::builder().workers(1), || {
        let fibers: Vec<_> = (1..=10)
            .map(|own| {
                daiko::spawn(move || {
                    for _ in 0..10 {
                        let kept = daiko::no_suspend(|| {
                            SEEN.set(own);
                            SEEN.get()
                        });
                        assert_eq!(kept, own);
                        daiko::yield_now();
                    }
                    // A fiber that tries to suspend, and catches the panic, finds its own value
                    // there.
                    daiko::no_suspend(|| {
                        SEEN.set(own);
                        let text = panic_of(daiko::yield_now);
                        assert!(text.contains("inside no_suspend"), "{text}");
                        assert_eq!(SEEN.get(), own);
                    });
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

/// While a fiber suspends in a destructor that unwinds, its neighbours seem to panic, too.
#[test]
fn a_neighbour_of_one_that_unwinds_seems_to_panic() {
    run_on(borrowed(2), || {
        let (unwinding, seen) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (tell, look) = (unwinding.clone(), seen.clone());
        let bad = Builder::new().on(0).spawn(move || {
            let _late = OnDrop(|| {
                tell.store(true, Ordering::Release);
                yield_until("the neighbours", || look.load(Ordering::Acquire));
            });
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        let bad: daiko::JoinHandle<()> = bad.unwrap();
        let on = |worker: usize| {
            let unwinding = unwinding.clone();
            let body = move || {
                yield_until("the unwinding", || unwinding.load(Ordering::Acquire));
                std::thread::panicking()
            };
            Builder::new().on(worker).spawn(body).unwrap()
        };
        let (neighbour, elsewhere) = (on(0), on(1));
        assert!(neighbour.join().unwrap(), "on the same worker");
        assert!(!elsewhere.join().unwrap(), "on another");
        // A lock of `std` taken before and dropped in between would be poisoned. A panic of the
        // neighbour itself stays its own.
        let body = || panic_of(|| panic!("its own"));
        let neighbour = Builder::new().on(0).spawn(body).unwrap();
        assert_eq!(neighbour.join().unwrap(), "its own");
        // It is not always known which of both unwinds, so that either may suspend.
        let body = || daiko::no_suspend(daiko::yield_now);
        Builder::new().on(0).spawn(body).unwrap().join().unwrap();
        seen.store(true, Ordering::Release);
        assert!(bad.join().unwrap_err().into_panic().is_ok());
        assert!(!std::thread::panicking());
        let after = Builder::new().on(0).spawn(std::thread::panicking).unwrap();
        assert!(!after.join().unwrap());
    });
}

/// Shows why a lock of `std` must not be held over a suspension, even if no fiber blocks on it.
#[test]
fn a_std_lock_held_over_a_suspension_is_poisoned_by_a_neighbour() {
    run_on(borrowed(1), || {
        let lock = Arc::new(Mutex::new(()));
        let (unwinding, released) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (other, look, tell) = (lock.clone(), unwinding.clone(), released.clone());
        let holder = daiko::spawn(move || {
            let held = other.lock().unwrap();
            yield_until("the neighbour's unwinding", || look.load(Ordering::Acquire));
            drop(held);
            tell.store(true, Ordering::Release);
        });
        let bad: daiko::JoinHandle<()> = daiko::spawn(move || {
            let _late = OnDrop(|| {
                unwinding.store(true, Ordering::Release);
                yield_until("the holder", || released.load(Ordering::Acquire));
            });
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        holder.join().unwrap();
        assert!(bad.join().is_err());
        assert!(lock.is_poisoned());
    });
}

/// A value in a thread-local, lent by fibers that a shutdown leaves behind.
struct Lent {
    value: u32,
    lock: daiko::sync::Mutex<u32>,
    _token: Token,
}

thread_local! {
    static LENT: OnceCell<Lent> = const { OnceCell::new() };
}

/// Calls `f` with the value of the calling worker's thread; `drops` counts its end.
fn with_lent<R>(drops: &Drops, f: impl FnOnce(&Lent) -> R) -> R {
    let new = || Lent { value: 7, lock: daiko::sync::Mutex::new(7), _token: drops.token() };
    LENT.with(|lent| f(lent.get_or_init(new)))
}

/// A flag that one thread raises for another thread.
#[derive(Clone, Default)]
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Blocks the calling thread.
    fn wait(&self) {
        until("the flag", || self.is_raised());
    }
}

/// Suspends the calling fiber for good: it resists every cancel.
fn resist() {
    static NEVER: Event = Event::manual();
    daiko::cancel::shield(|| NEVER.wait());
}

/// A runtime whose fibers lend the thread-locals of their workers.
fn lending(count: usize) -> Runtime {
    borrowed(count).build().unwrap()
}

/// Shuts the runtime down without waiting.
fn leave_behind(runtime: Runtime) -> ShutdownReport {
    runtime.shutdown_timeout(Duration::ZERO)
}

#[test]
fn a_thread_local_outlives_the_shutdown_while_a_blocking_call_borrows_it() {
    let (runtime, drops) = (lending(1), Drops::default());
    let [there, go, done] = std::array::from_fn(|_| Flag::default());
    let (lender, flags) = (drops.clone(), [there.clone(), go.clone(), done.clone()]);
    let fiber = runtime.spawn(move || {
        let [there, go, done] = &flags;
        with_lent(&lender, |lent| {
            let value = &lent.value;
            daiko::blocking(|| {
                there.raise();
                go.wait();
                assert_eq!(*value, 7);
                done.raise();
            });
        });
    });
    there.wait();
    let report = leave_behind(runtime);
    assert_eq!((report.leaked, report.threads_left), (1, 1));
    assert_eq!(drops.dropped(), 0);
    go.raise();
    done.wait();
    assert_eq!(drops.dropped(), 0);
    assert!(matches!(fiber.join(), Err(JoinError::Leaked)));
}

/// The borrower computes on another worker. The thread of that worker ends after the borrower.
#[test]
fn a_thread_local_outlives_the_shutdown_while_a_scoped_fiber_borrows_it() {
    let (runtime, drops, others) = (lending(2), Drops::default(), Drops::default());
    let [there, go, done] = std::array::from_fn(|_| Flag::default());
    let (lender, other) = (drops.clone(), others.clone());
    let flags = [there.clone(), go.clone(), done.clone()];
    let parent = runtime.spawn_with(Builder::new().on(0), move || {
        let [there, go, done] = &flags;
        with_lent(&lender, |lent| {
            let value = &lent.value;
            daiko::scope(|s| {
                let computes = || {
                    with_lent(&other, |_| ());
                    there.raise();
                    go.wait();
                    assert_eq!(*value, 7);
                    done.raise();
                };
                Builder::new().on(1).spawn_scoped(s, computes).unwrap();
            });
        });
    });
    there.wait();
    let report = leave_behind(runtime);
    assert_eq!((report.leaked, report.threads_left), (2, 2));
    assert_eq!((drops.dropped(), others.dropped()), (0, 0));
    go.raise();
    done.wait();
    until("the end of the thread that computed", || others.dropped() == 1);
    assert_eq!(drops.dropped(), 0);
    drop(parent);
}

/// A fiber of another runtime ends the runtime.
#[test]
fn a_thread_local_outlives_the_shutdown_while_a_scoped_thread_borrows_it() {
    let (outer, drops) = (lending(1), Drops::default());
    let [there, go, done] = std::array::from_fn(|_| Flag::default());
    let (lender, flags) = (drops.clone(), [there.clone(), go.clone(), done.clone()]);
    let report = outer.run(move || {
        let inner = lending(1);
        drop(inner.spawn(move || {
            let [there, go, done] = &flags;
            with_lent(&lender, |lent| {
                let value = &lent.value;
                std::thread::scope(|s| {
                    s.spawn(|| {
                        go.wait();
                        assert_eq!(*value, 7);
                        done.raise();
                    });
                    there.raise();
                    resist();
                });
            });
        }));
        there.wait();
        leave_behind(inner)
    });
    assert_eq!((report.leaked, report.threads_left), (1, 1));
    assert_eq!(drops.dropped(), 0);
    go.raise();
    done.wait();
    assert_eq!(drops.dropped(), 0);
    support::end(outer);
}

/// A notification uses the mutex of the fiber that it wakes.
#[test]
fn a_thread_local_outlives_the_shutdown_while_a_fiber_waits_with_it() {
    static CHANGED: daiko::sync::Condvar = daiko::sync::Condvar::new();
    let (runtime, drops, there) = (lending(1), Drops::default(), Flag::default());
    let (lender, tell) = (drops.clone(), there.clone());
    let fiber = runtime.spawn(move || {
        with_lent(&lender, |lent| {
            let held = lent.lock.lock().unwrap();
            tell.raise();
            daiko::cancel::shield(|| drop(CHANGED.wait(held)));
        });
    });
    there.wait();
    // This fiber runs on the same worker, so the first fiber waits by now.
    runtime.run(|| ());
    let report = leave_behind(runtime);
    assert_eq!((report.leaked, report.threads_left), (1, 1));
    CHANGED.notify_one();
    CHANGED.notify_all();
    fiber.fiber().unpark();
    assert_eq!(drops.dropped(), 0);
}

/// The fiber suspends only after the shutdown has given its worker up.
#[test]
fn a_worker_that_was_stuck_in_the_shutdown_keeps_its_thread_for_its_fiber() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    let (runtime, drops, id) = (lending(1), Drops::default(), Arc::new(AtomicU32::new(0)));
    let go = Flag::default();
    let (lender, tell, released) = (drops.clone(), id.clone(), go.clone());
    let fiber = runtime.spawn(move || {
        with_lent(&lender, |_| {
            tell.store(daiko_sys::thread::id(), Ordering::Release);
            released.wait();
            resist();
        });
    });
    until("the fiber", || id.load(Ordering::Acquire) != 0);
    let report = leave_behind(runtime);
    assert_eq!((report.leaked, report.threads_left), (1, 1));
    go.raise();
    until("the thread's last sleep", || {
        daiko_sys::thread::waits_for_another(id.load(Ordering::Acquire))
    });
    assert_eq!(drops.dropped(), 0);
    assert!(matches!(fiber.join(), Err(JoinError::Leaked)));
}

/// Movers may not lend thread-locals, and fibers that have not started have lent nothing.
#[test]
fn a_thread_ends_with_its_thread_locals_where_no_fiber_of_its_own_is_left() {
    let (runtime, drops, there) = (lending(1), Drops::default(), Flag::default());
    let (user, tell) = (drops.clone(), there.clone());
    runtime.run(move || with_lent(&user, |_| ()));
    let resists = move || {
        tell.raise();
        resist();
    };
    // SAFETY: the fiber uses no thread-local.
    let moving = unsafe { Builder::new().borrowed_migratable() };
    let fiber = runtime.spawn_with(moving, resists).unwrap();
    there.wait();
    assert_eq!(leave_behind(runtime).leaked, 1);
    until("the end of the thread", || drops.dropped() == drops.made());
    assert!(matches!(fiber.join(), Err(JoinError::Leaked)));
}

#[test]
fn no_thread_is_left_where_all_fibers_end() {
    let (runtime, drops) = (lending(2), Drops::default());
    for worker in 0..2 {
        let user = drops.clone();
        let uses = move || with_lent(&user, |_| daiko::park());
        drop(runtime.spawn_with(Builder::new().on(worker), uses).unwrap());
    }
    let report = runtime.shutdown();
    assert_eq!((report.leaked, report.threads_left), (0, 0));
    drops.assert_all();
}
