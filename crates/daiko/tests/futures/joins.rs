//! Fibers that are awaited.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use daiko::sync::{Mutex, Semaphore};
use daiko::{JoinError, JoinHandle, Runtime, block_on};

use crate::support::waits::{everywhere_numbered, waiting};
use crate::support::{Drops, end, everywhere, until, workers, yield_until};
use crate::yields;

/// Counts its wakes, and runs a function at each.
struct Counter<F = fn()>(AtomicUsize, F);

impl<F: Fn() + Send + Sync + 'static> Wake for Counter<F> {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        (self.1)();
    }
}

impl<F: Fn() + Send + Sync + 'static> Counter<F> {
    fn new(at_wake: F) -> (Arc<Self>, Waker) {
        let counter = Arc::new(Counter(AtomicUsize::new(0), at_wake));
        (counter.clone(), Waker::from(counter))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Spawns a fiber that ends once the semaphore has a permit.
fn gated<T: Send + 'static>(value: T) -> (Arc<Semaphore>, JoinHandle<T>) {
    let gate = Arc::new(Semaphore::new(0));
    let theirs = gate.clone();
    let fiber = daiko::spawn(move || {
        drop(theirs.acquire());
        value
    });
    (gate, fiber)
}

#[test]
fn results_panics_and_cancels_are_awaited() {
    everywhere(|| {
        assert_eq!(block_on(daiko::spawn(|| 7)).unwrap(), 7);
        let panics: JoinHandle<()> = daiko::spawn(|| panic!("awaited"));
        let payload = block_on(async { panics.await }).unwrap_err().into_panic().unwrap();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"awaited"));
        let endless = daiko::spawn(daiko::park).into_future();
        endless.cancel();
        assert!(matches!(block_on(endless), Err(JoinError::Cancelled)));
    });
}

#[test]
fn fibers_and_threads_await_fibers_of_any_worker() {
    everywhere_numbered(10, |number| {
        let fibers: Vec<_> =
            (0..10).map(|i| daiko::spawn(move || block_on(yields((number + i) % 4)))).collect();
        block_on(async {
            for fiber in fibers {
                fiber.await.unwrap();
            }
        });
    });
}

#[test]
fn the_last_waker_is_woken_once_and_all_are_dropped() {
    let runtime = workers(1);
    runtime.run(|| {
        let (gate, fiber) = gated(5);
        let counters = [(); 3].map(|()| Counter::new(|| ()));
        let mut join = pin!(fiber.into_future());
        for (_, waker) in counters.iter().chain(&counters[2..]) {
            assert!(join.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        gate.add_permits(1);
        daiko::yield_now();
        assert_eq!(counters.each_ref().map(|(counter, _)| counter.count()), [0, 0, 1]);
        let again = join.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(again, Poll::Ready(Ok(5))));
        let taken = join.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(taken, Poll::Ready(Err(JoinError::Taken))));
        assert!(counters.iter().all(|(counter, _)| Arc::strong_count(counter) == 2));
    });
    end(runtime);
}

#[test]
fn a_future_that_is_dropped_detaches_its_fiber() {
    let runtime = workers(1);
    let drops = Drops::default();
    let token = drops.token();
    runtime.run(move || {
        let (gate, fiber) = gated(token);
        let (counter, waker) = Counter::new(|| ());
        let mut join = fiber.into_future();
        assert!(pin!(&mut join).poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(Arc::strong_count(&counter), 3);
        drop(join);
        assert_eq!(Arc::strong_count(&counter), 2, "the waker is dropped");
        gate.add_permits(1);
        daiko::yield_now();
        assert_eq!(counter.count(), 0);
    });
    end(runtime);
    drops.assert_all();
}

/// The end on one thread meets polls with new wakers, and the drop, on another.
#[test]
fn ends_meet_polls_and_drops() {
    let runtime = workers(2);
    for round in 0..500 {
        let drops = Drops::default();
        let token = drops.token();
        let fiber = runtime.spawn(move || token);
        let counters = [(); 2].map(|()| Counter::new(|| ()));
        let mut join = fiber.into_future();
        for (_, waker) in &counters {
            if pin!(&mut join).poll(&mut Context::from_waker(waker)).is_ready() {
                break;
            }
        }
        match round % 2 {
            0 => drop(join),
            _ => drop(block_on(join)),
        }
        until("the end", || drops.made() == drops.dropped());
        until("the drop of the wakers", || {
            counters.iter().all(|(counter, _)| Arc::strong_count(counter) == 2)
        });
    }
    end(runtime);
}

/// A waker is code of another library: its panic and its waits are not those of the fiber that
/// ends.
#[test]
fn a_waker_that_panics_or_would_wait_does_no_harm_to_the_fiber_that_ends() {
    let runtime = workers(1);
    runtime.run(|| {
        let held = Arc::new(Mutex::new(()));
        let guard = held.lock().unwrap();
        let theirs = held.clone();
        let waits = move || drop(theirs.lock());
        let panics = || panic!("in a waker");
        let parks = daiko::park;
        let [count, returned] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let counted = |wake: Box<dyn Fn() + Send + Sync>| {
            let (count, returned) = (count.clone(), returned.clone());
            let wake = move || {
                count.fetch_add(1, Ordering::Relaxed);
                wake();
                returned.fetch_add(1, Ordering::Relaxed);
            };
            Counter::new(wake).1
        };
        let wakers =
            [counted(Box::new(waits)), counted(Box::new(panics)), counted(Box::new(parks))];
        for (waker, woken) in wakers.iter().zip(1..) {
            let (gate, fiber) = gated(3);
            let mut join = fiber.into_future();
            assert!(pin!(&mut join).poll(&mut Context::from_waker(waker)).is_pending());
            gate.add_permits(1);
            yield_until("the wake", || count.load(Ordering::Relaxed) == woken);
            assert_eq!(block_on(&mut join).unwrap(), 3);
        }
        drop(guard);
        daiko::yield_now();
        assert_eq!(returned.load(Ordering::Relaxed), 0, "a waker has waited");
    });
    end(runtime);
}

#[test]
fn a_fiber_does_not_await_itself() {
    everywhere(|| {
        let handle = Arc::new(std::sync::Mutex::new(None::<JoinHandle<bool>>));
        let theirs = handle.clone();
        let ready = Arc::new(Semaphore::new(0));
        let is_ready = ready.clone();
        let (tell, told) = std::sync::mpsc::channel();
        *handle.lock().unwrap() = Some(daiko::spawn(move || {
            drop(is_ready.acquire());
            let own = theirs.lock().unwrap().take().unwrap();
            tell.send(matches!(block_on(own), Err(JoinError::Itself))).unwrap();
            true
        }));
        ready.add_permits(1);
        daiko::blocking(move || assert!(told.recv().unwrap()));
    });
}

#[test]
fn a_thread_awaits_a_fiber_that_a_shutdown_unwinds_or_leaves_behind() {
    let runtime = workers(1);
    let waits = runtime.spawn(daiko::park);
    let joined = thread::spawn(move || block_on(waits));
    runtime.shutdown();
    assert!(matches!(joined.join().unwrap(), Err(JoinError::Cancelled)));

    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let (_send, receive) = std::sync::mpsc::channel::<()>();
    let resists = runtime.spawn(move || {
        tell.send(()).unwrap();
        receive.recv()
    });
    told.recv().unwrap();
    let joined = thread::spawn(move || block_on(resists).map(drop));
    let report = runtime.shutdown_timeout(std::time::Duration::from_millis(10));
    assert_eq!(report.leaked, 1);
    assert!(matches!(joined.join().unwrap(), Err(JoinError::Leaked)));
}

#[test]
fn a_cancelled_fiber_leaves_the_fiber_that_it_awaits() {
    let runtime = workers(1);
    runtime.run(|| {
        let (gate, fiber) = gated(1);
        let waiter = waiting(move || block_on(fiber).map(drop));
        waiter.cancel();
        assert!(matches!(waiter.join(), Err(JoinError::Cancelled)));
        gate.add_permits(1);
        daiko::yield_now();
    });
    end(runtime);
}

#[test]
fn a_panic_in_the_clone_of_a_waker_leaves_the_future_as_it_was() {
    use std::task::{RawWaker, RawWakerVTable};
    static PANICS: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("in a clone"), |_| (), |_| (), |_| ());
    // SAFETY: the data is not used; the functions keep the contract, and one panics.
    let panics = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &PANICS)) };
    let runtime = workers(1);
    runtime.run(move || {
        let (gate, fiber) = gated(9);
        let mut join = fiber.into_future();
        for waker in [&panics, Waker::noop(), &panics] {
            let poll = || pin!(&mut join).poll(&mut Context::from_waker(waker)).is_pending();
            let polled = panic::catch_unwind(AssertUnwindSafe(poll));
            assert!(polled.is_err() || polled.is_ok_and(|pending| pending));
        }
        gate.add_permits(1);
        assert_eq!(block_on(join).unwrap(), 9);
    });
    end(runtime);
}
