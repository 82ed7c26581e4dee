//! A fiber is in user code again after each call of the library, however the call ended. So the
//! death of its worker loses only this fiber.

use std::cell::Cell;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use daiko::cancel::CancelToken;
use daiko::sync::{Barrier, Condvar, Event, WaitGroup, channel};
use daiko::watch::{self, NotificationArea};
use daiko::{Cancelled, JoinError, JoinHandle, Runtime, time};

use super::processes;
use crate::End;

super::cases! {
    a_fiber_is_in_its_own_code_again_after_each_call End::Well,
    a_fiber_that_a_call_has_unwound_is_in_its_own_code_again End::Well,
    a_fiber_that_suspends_in_its_unwinding_is_in_its_own_code_again End::Well,
}

const MOMENT: Duration = Duration::from_micros(10);

/// Calls of the runtime.
const CALLS: [(&str, fn()); 14] = [
    ("spawn", || _ = daiko::spawn(|| 1).join().unwrap()),
    ("drop of a handle", || drop(daiko::spawn(|| ()))),
    ("join_timeout", join_timeout),
    ("unpark and cancel", unpark_and_cancel),
    ("suspend", suspend),
    ("sleep", sleep),
    ("messages", messages),
    ("rendezvous", rendezvous),
    ("select", select),
    ("events", events),
    ("meetings", meetings),
    ("tokens", tokens),
    ("watches", watches),
    ("locals and pollers", locals_and_pollers),
];

fn join_timeout() {
    let parks = daiko::spawn(daiko::park);
    let parks = parks.join_timeout(MOMENT).unwrap_err();
    parks.fiber().unpark();
    parks.join().unwrap();
}

fn unpark_and_cancel() {
    let parks = daiko::spawn(daiko::park);
    daiko::yield_now();
    parks.fiber().unpark();
    let sleeps = daiko::spawn(|| time::sleep(Duration::from_secs(3600)));
    daiko::yield_now();
    sleeps.cancel();
    assert!(matches!(sleeps.join(), Err(JoinError::Cancelled)));
    drop(parks);
}

fn suspend() {
    daiko::yield_now();
    daiko::current().unpark();
    daiko::park();
    let caller = daiko::current();
    drop(daiko::spawn(move || caller.unpark()));
    daiko::park();
}

fn sleep() {
    time::sleep(MOMENT);
    daiko::park_timeout(MOMENT);
    time::interval(MOMENT).tick();
}

fn messages() {
    for (sender, receiver) in [channel::bounded(2), channel::unbounded()] {
        sender.send(1).unwrap();
        sender.try_send(2).unwrap();
        assert_eq!((receiver.recv(), receiver.try_recv()), (Ok(1), Ok(2)));
        assert!(receiver.recv_timeout(MOMENT).is_err());
        drop(sender.clone());
    }
    let (sender, receiver) = channel::oneshot();
    sender.send(1).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
}

fn rendezvous() {
    let (sender, receiver) = channel::rendezvous();
    let sends = daiko::spawn(move || sender.send(1));
    assert_eq!(receiver.recv(), Ok(1));
    sends.join().unwrap().unwrap();
}

fn select() {
    let (sender, receiver) = channel::bounded(1);
    let sends = daiko::spawn(move || sender.send(1));
    daiko::select! {
        recv(receiver) -> message => assert_eq!(message, Ok(1)),
    }
    sends.join().unwrap().unwrap();
    let (event, mut joined) = (Arc::new(Event::auto()), daiko::spawn(daiko::park));
    let sets = event.clone();
    drop(daiko::spawn(move || sets.set()));
    daiko::select! {
        wait(event) => joined.fiber().unpark(),
        join(joined) -> _ => panic!("it parks"),
        sleep(Duration::from_secs(3600)) => panic!("an hour"),
    }
    daiko::select! {
        wait(event) => panic!("one set, one wait"),
        join(joined) -> result => result.unwrap(),
    }
}

fn events() {
    let event = Event::auto();
    event.set();
    event.wait();
    assert!(event.wait_timeout(MOMENT).is_err());
    Condvar::new().notify_all();
}

fn meetings() {
    let barrier = Arc::new(Barrier::new(2));
    let other = barrier.clone();
    let waits = daiko::spawn(move || _ = other.wait());
    barrier.wait();
    waits.join().unwrap();
    let group = WaitGroup::new();
    let member = group.clone();
    drop(daiko::spawn(move || drop(member)));
    group.wait();
}

fn tokens() {
    let token = CancelToken::new();
    let child = token.child();
    assert!(child.wait_timeout(MOMENT).is_err());
    token.cancel();
    child.wait();
}

fn watches() {
    let word = Arc::new(AtomicU64::new(0));
    assert!(watch::wait_until_timeout(&*word, watch::changed_from(0), MOMENT).is_err());
    let seen = word.clone();
    let tells = daiko::spawn(move || {
        seen.store(1, Ordering::Release);
        watch::notify(&*seen)
    });
    watch::wait_until_notified(&*word, watch::changed_from(0));
    tells.join().unwrap();
    let (area, mut slots) = NotificationArea::<u64>::notified(1);
    area.notify(0);
    slots[0].wait().unwrap();
    assert!(slots[0].wait_timeout(MOMENT).is_err());
}

daiko::fiber_local! {
    static LOCAL: Cell<u32> = const { Cell::new(1) };
}

fn locals_and_pollers() {
    LOCAL.set(2);
    drop(daiko::agent::register(|| 0));
}

/// Spawns a fiber that makes a call, and then stays in user code for ever. Returns it, and the word
/// that holds its process then.
fn victim(
    runtime: &Runtime,
    does: impl FnOnce() + Send + 'static,
) -> (JoinHandle<()>, Arc<AtomicU32>) {
    let at = Arc::new(AtomicU32::new(0));
    let here = at.clone();
    let fiber = runtime.spawn(move || {
        does();
        here.store(std::process::id(), Ordering::Release);
        loop {
            std::hint::spin_loop();
        }
    });
    (fiber, at)
}

/// Kills the process that a victim is in, and checks that only the victim is lost.
fn assert_lost((victim, at): (JoinHandle<()>, Arc<AtomicU32>), operation: &str) {
    await_change(&at);
    // SAFETY: it takes plain integers.
    assert_eq!(unsafe { libc::kill(at.load(Ordering::Acquire) as i32, libc::SIGKILL) }, 0);
    assert!(matches!(victim.join(), Err(JoinError::WorkerDied)), "{operation}");
}

fn await_change(word: &AtomicU32) {
    while word.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
}

fn a_fiber_is_in_its_own_code_again_after_each_call() {
    let runtime = processes(2).build().unwrap();
    for (operation, call) in CALLS {
        assert_lost(victim(&runtime, call), operation);
    }
    assert_eq!(runtime.shutdown().died, CALLS.len());
}

fn a_fiber_that_a_call_has_unwound_is_in_its_own_code_again() {
    let runtime = processes(1).build().unwrap();
    let started = Arc::new(AtomicU32::new(0));
    let starts = started.clone();
    let (fiber, at) = victim(&runtime, move || {
        starts.store(1, Ordering::Release);
        let sleep = || time::sleep(Duration::from_secs(3600));
        assert!(panic::catch_unwind(sleep).unwrap_err().is::<Cancelled>());
    });
    await_change(&started);
    fiber.cancel();
    assert_lost((fiber, at), "a call that was unwound");
    assert_eq!(runtime.shutdown().died, 1);
}

/// Suspends where it is dropped.
struct Suspends;

impl Drop for Suspends {
    fn drop(&mut self) {
        assert!(std::thread::panicking());
        suspend();
        time::sleep(MOMENT);
    }
}

fn a_fiber_that_suspends_in_its_unwinding_is_in_its_own_code_again() {
    let runtime = processes(1).build().unwrap();
    let unwinds = || {
        let _suspends = Suspends;
        panic::resume_unwind(Box::new(()))
    };
    assert_lost(
        victim(&runtime, move || drop(panic::catch_unwind(unwinds).unwrap_err())),
        "an unwinding",
    );
    assert_eq!(runtime.shutdown().died, 1);
}
