use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use daiko::shm::{Cause, Mutex, Segment, SegmentError, TimedLockError, TryLockError};
use daiko_core::robust;

use crate::place::{LONG, Place, SHORT, raw_object, rest, theirs};
use crate::support::child::is_child;
use crate::support::{assert_names, panic_of, until, workers, yield_until};

fn mutex(segment: &Segment) -> Mutex<u64> {
    Mutex::open_or_create(segment, "mutex", 0).unwrap()
}

/// Returns the poison that the caller gets, and the value.
fn lock(mutex: &Mutex<u64>) -> (Option<Cause>, u64) {
    match mutex.lock_timeout(LONG) {
        Ok(guard) => (None, *guard),
        Err(TimedLockError::Poisoned(error)) => (Some(error.cause()), *error.into_inner()),
        Err(TimedLockError::TimedOut) => panic!("the lock is lost"),
    }
}

#[test]
fn fibers_and_threads_of_two_processes_exclude_each_other() {
    const NAME: &str = "mutex::fibers_and_threads_of_two_processes_exclude_each_other";
    const EACH: u64 = 2000;
    // Adds to two numbers that are equal while no writer changes them.
    fn add(mutex: &Mutex<[u64; 2]>) {
        let mut pair = mutex.lock().unwrap();
        pair[0] += 1;
        assert_eq!(pair[0], pair[1] + 1);
        pair[1] += 1;
    }
    fn work(segment: &Segment) {
        let mutex = Mutex::open_or_create(segment, "pair", [0u64; 2]).unwrap();
        let runtime = workers(2);
        thread::scope(|threads| {
            threads.spawn(|| (0..EACH).for_each(|_| add(&mutex)));
            let fibers: Vec<_> = (0..4)
                .map(|_| {
                    let mutex = mutex.clone();
                    runtime.spawn(move || (0..EACH).for_each(|_| add(&mutex)))
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    }
    if is_child() {
        return work(&theirs());
    }
    let place = Place::new("exclusion");
    let mut child = place.child(NAME);
    work(&place.segment);
    child.ends_well();
    let mutex = Mutex::<[u64; 2]>::open(&place.segment, "pair").unwrap();
    assert_eq!(*mutex.lock().unwrap(), [10 * EACH; 2]);
}

#[test]
fn one_waiter_learns_of_a_killed_holder() {
    const NAME: &str = "mutex::one_waiter_learns_of_a_killed_holder";
    if is_child() {
        let segment = theirs();
        let mutex = mutex(&segment);
        let mut guard = mutex.lock().unwrap();
        *guard = 5;
        rest(&segment, "held");
    }
    let place = Place::new("killed");
    let mutex = mutex(&place.segment);
    *mutex.lock().unwrap() = 3;
    let child = place.child(NAME);
    place.event("held").wait();
    assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
    let runtime = workers(1);
    let began = std::sync::Arc::new(AtomicUsize::new(0));
    let waits = |began: std::sync::Arc<AtomicUsize>, mutex: Mutex<u64>| {
        move || {
            began.fetch_add(1, Ordering::Relaxed);
            lock(&mutex)
        }
    };
    let fibers = [(); 2].map(|()| runtime.spawn(waits(began.clone(), mutex.clone())));
    let thread = thread::spawn(waits(began.clone(), mutex.clone()));
    // The last waiter has handles of its own, as another process would have.
    let elsewhere = Segment::open(place.segment.path()).unwrap();
    let other = thread::spawn(waits(began.clone(), Mutex::open(&elsewhere, "mutex").unwrap()));
    until("the waiters", || began.load(Ordering::Relaxed) == 4);
    child.kill();
    let mut told: Vec<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
    told.extend([thread.join().unwrap(), other.join().unwrap()]);
    // The value that the dead process had not written back is not seen.
    assert!(told.iter().all(|&(_, value)| value == 3), "{told:?}");
    let of = |cause| told.iter().filter(|&&(told, _)| told == Some(cause)).count();
    assert_eq!((of(Cause::OwnerDied), of(Cause::Poisoned)), (1, 3), "{told:?}");
    mutex.clear_poison();
    assert_eq!(lock(&mutex), (None, 3));
}

#[test]
fn an_unlocker_that_dies_before_it_rings_lets_waiters_go() {
    const NAME: &str = "mutex::an_unlocker_that_dies_before_it_rings_lets_waiters_go";
    if is_child() {
        let segment = theirs();
        std::mem::forget(mutex(&segment).lock().unwrap());
        daiko::shm::Event::open(&segment, "held").unwrap().set();
        daiko::shm::Event::open(&segment, "waits").unwrap().wait();
        let object = raw_object(&segment, "mutex");
        let _ = object.at::<robust::RobustMutex>(0).unlock(segment.me());
        std::process::abort();
    }
    let place = Place::new("unlocker");
    let (held, waits) = (place.event("held"), place.event("waits"));
    let mutex = mutex(&place.segment);
    let _child = place.child(NAME);
    held.wait();
    let waiter = {
        let mutex = mutex.clone();
        thread::spawn(move || lock(&mutex))
    };
    crate::place::until_a_waiter_listens(&place.segment, "mutex", 8);
    waits.set();
    assert_eq!(waiter.join().unwrap(), (None, 0));
}

#[test]
fn a_panic_poisons_and_a_cancel_does_not() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let mutex = mutex(&segment);
    let runtime = workers(1);
    let fails = mutex.clone();
    let failed = runtime.spawn(move || {
        *fails.lock().unwrap() = 1;
        let _guard = fails.lock().unwrap();
        panic!("on purpose");
    });
    assert!(failed.join().is_err());
    assert!(mutex.is_poisoned());
    assert_eq!(lock(&mutex), (Some(Cause::Poisoned), 1));
    mutex.clear_poison();
    assert_eq!(lock(&mutex), (None, 1));

    let held = std::sync::Arc::new(AtomicBool::new(false));
    let (holds, holder) = (held.clone(), mutex.clone());
    let cancelled = runtime.spawn(move || {
        let mut guard = holder.lock().unwrap();
        *guard = 2;
        holds.store(true, Ordering::Relaxed);
        daiko::park();
    });
    until("it is held", || held.load(Ordering::Relaxed));
    cancelled.cancel();
    assert!(cancelled.join().is_err());
    assert_eq!(lock(&mutex), (None, 2));
    // The panic of a thread; and a lock by a thread that panics already.
    assert_eq!(
        panic_of(|| -> () {
            let _guard = mutex.lock().unwrap();
            panic!("on purpose");
        }),
        "on purpose"
    );
    assert!(
        matches!(mutex.try_lock(), Err(TryLockError::Poisoned(error)) if error.cause() == Cause::Poisoned)
    );
    mutex.clear_poison();
    let locks = crate::support::OnDrop(|| drop(mutex.lock().unwrap()));
    panic_of(|| {
        let _locks = locks;
        panic!("on purpose");
    });
    assert!(!mutex.is_poisoned());
}

#[test]
fn waits_end_at_their_deadlines() {
    const NAME: &str = "mutex::waits_end_at_their_deadlines";
    if is_child() {
        let segment = theirs();
        let mutex = mutex(&segment);
        let _guard = mutex.lock().unwrap();
        rest(&segment, "held");
    }
    let place = Place::new("mutex-deadlines");
    let mutex = mutex(&place.segment);
    let _child = place.child(NAME);
    place.event("held").wait();
    let waits = move || {
        for timeout in [Duration::ZERO, SHORT] {
            let by_timeout = mutex.lock_timeout(timeout).map(drop);
            assert!(matches!(by_timeout, Err(TimedLockError::TimedOut)));
            let by_deadline = mutex.lock_timeout(Instant::now() + timeout).map(drop);
            assert!(matches!(by_deadline, Err(TimedLockError::TimedOut)));
        }
    };
    waits();
    workers(1).run(waits);
}

#[test]
fn a_waiter_that_is_cancelled_leaves_the_lock_to_others() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let mutex = mutex(&segment);
    workers(1).run(move || {
        // Another attachment holds the lock, so the first waiter waits in the segment, the second
        // behind it.
        let other = segment.as_fd(Segment::from_fd).unwrap();
        let held = Mutex::<u64>::open(&other, "mutex").unwrap();
        let guard = held.lock().unwrap();
        let began = AtomicUsize::new(0);
        let waits = || {
            began.fetch_add(1, Ordering::Relaxed);
            lock(&mutex)
        };
        daiko::scope(|s| {
            let [first, second] = [(); 2].map(|()| s.spawn(waits));
            yield_until("two waiters", || began.load(Ordering::Relaxed) == 2);
            first.cancel();
            assert!(first.join().is_err());
            drop(guard);
            assert_eq!(second.join().unwrap(), (None, 0));
        });
    });
}

#[test]
fn a_lock_is_opened_with_its_own_type() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    mutex(&segment);
    for error in [
        Mutex::<u32>::open(&segment, "mutex").map(drop).unwrap_err(),
        Mutex::<f64>::open(&segment, "mutex").map(drop).unwrap_err(),
        Mutex::open_or_create(&segment, "mutex", [0u64; 2]).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, SegmentError::Other { differs: "type", .. }), "{error:?}");
        assert_names(&error, "use the same types");
    }
    let error = daiko::shm::Event::open(&segment, "mutex").unwrap_err();
    assert!(matches!(error, SegmentError::Other { differs: "kind", .. }), "{error:?}");
}

#[test]
fn a_value_of_any_size_is_locked_from_a_fiber() {
    // Larger than a fiber's stack.
    type Large = [u64; 16 << 10];
    let segment = Segment::anonymous(1 << 20).unwrap();
    let large = [7; 16 << 10];
    let mutex = Mutex::<Large>::create(&segment, "large", large).unwrap();
    let empty = Mutex::<[u64; 0]>::create(&segment, "empty", []).unwrap();
    let fiber = mutex.clone();
    workers(1).run(move || {
        fiber.lock().unwrap()[100] = 8;
        drop(empty.lock().unwrap());
    });
    let guard = mutex.lock().unwrap();
    assert_eq!((guard[99], guard[100], guard[(16 << 10) - 1]), (7, 8, 7));
}

#[test]
fn errors_name_the_remedy_in_one_line() {
    let error = TimedLockError::<()>::TimedOut;
    assert_names(&error, "stopped");
    assert_names(&TryLockError::<()>::WouldBlock, "wait for it");
    for (cause, remedy) in [
        (Cause::OwnerDied, "clear_poison"),
        (Cause::Poisoned, "clear_poison"),
        (Cause::Truncated, "create it anew"),
    ] {
        assert_names(&cause, remedy);
    }
}
