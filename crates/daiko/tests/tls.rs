//! Fibers borrow their worker's thread-local storage. What that means is shown, not hidden.

mod support;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use daiko::{Builder, Runtime};
use support::{OnDrop, panic_of, run_on, yield_until};

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn contents_interleave_between_fibers_of_a_worker() {
    run_on(Runtime::builder().workers(1), || {
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
        assert_eq!(first.join().unwrap(), 2, "what the second left there");
        assert_eq!(second.join().unwrap(), (1, 2), "what the first left there");
    });
}

#[test]
fn workers_have_contents_of_their_own() {
    run_on(Runtime::builder().workers(2), || {
        let set = |worker: usize, value| Builder::new().on(worker).spawn(move || SEEN.set(value));
        let get = |worker: usize| Builder::new().on(worker).spawn(|| SEEN.get());
        set(0, 10).unwrap().join().unwrap();
        set(1, 11).unwrap().join().unwrap();
        assert_eq!(get(0).unwrap().join().unwrap(), 10);
        assert_eq!(get(1).unwrap().join().unwrap(), 11);
    });
}

/// The address is the worker's, so that a reference taken before a suspension stays good.
#[test]
fn addresses_stay_with_pinned_fibers() {
    run_on(Runtime::builder().workers(2), || {
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
                    // Who tries all the same finds its own there when it catches the panic.
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
    run_on(Runtime::builder().workers(2), || {
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
        // A lock of std taken before and dropped in between would be poisoned; a panic of the
        // neighbour's own stays its own.
        let body = || panic_of(|| panic!("its own"));
        let neighbour = Builder::new().on(0).spawn(body).unwrap();
        assert_eq!(neighbour.join().unwrap(), "its own");
        // Who of both unwinds is not always known, so that nobody is kept from suspending.
        let body = || daiko::no_suspend(daiko::yield_now);
        Builder::new().on(0).spawn(body).unwrap().join().unwrap();
        seen.store(true, Ordering::Release);
        assert!(bad.join().unwrap_err().into_panic().is_ok());
        assert!(!std::thread::panicking());
        let after = Builder::new().on(0).spawn(std::thread::panicking).unwrap();
        assert!(!after.join().unwrap());
    });
}

/// Why a lock of `std` must not be held over a suspension, even if nobody blocks on it.
#[test]
fn a_std_lock_held_over_a_suspension_is_poisoned_by_a_neighbour() {
    run_on(Runtime::builder().workers(1), || {
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
