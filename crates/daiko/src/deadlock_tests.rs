//! Tests of waits that may still be ended, and so are no deadlock, and of waits that are one.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::caller;
use crate::child;
use crate::child::emulated::LinuxPart;

use crate::sync::{Condvar, Mutex, Once, RwLock, RwLockWriteGuard, Semaphore};
use crate::{Builder, Fiber, JoinHandle, Preset, Runtime, watch};
use daiko_rt::Deadlock;
use daiko_rt::deadlock::held::{self, Who};
use daiko_rt::deadlock::sampler::{Others, StuckSampler};
use daiko_rt::deadlock::track;
use daiko_rt::fiber::ControlBlock;

/// A time longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);

fn runtime() -> Runtime {
    // A hook that ignores deadlocks replaces the report of a build with debug assertions.
    let builder = Runtime::builder().workers(1).preset(Preset::Power).on_deadlock(|_| ());
    builder.build().unwrap()
}

fn block(fiber: &Fiber) -> &ControlBlock {
    // SAFETY: the tests use what any thread may use.
    unsafe { fiber.control_block() }
}

fn until(mut come: impl FnMut() -> bool) {
    while !come() {
        std::thread::yield_now();
    }
}

/// Spawns a fiber of this name that runs `wait`; returns once it is suspended there.
fn waiting<T: Send + 'static>(
    runtime: &Runtime,
    name: &str,
    wait: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let started = Arc::new(AtomicBool::new(false));
    let starts = started.clone();
    let body = move || {
        starts.store(true, Ordering::Release);
        wait()
    };
    let handle = runtime.spawn_with(Builder::new().name(name), body).unwrap();
    until(|| started.load(Ordering::Acquire) && block(handle.fiber()).state.is_suspended());
    handle
}

/// Returns the deadlock that would be reported if no other thread could act.
fn if_all_others_slept(runtime: &Runtime) -> Option<Deadlock> {
    until(|| caller::inner(runtime).all_workers()[0].is_parked());
    caller::inner(runtime).switches_if_idle()?;
    caller::inner(runtime).deadlock(true, 0)
}

/// Asserts that a fiber in this wait may be woken, though all other fibers wait for it.
fn may_be_woken<T: Send + 'static>(
    wait: impl FnOnce() -> T + Send + 'static,
    end: impl FnOnce(&JoinHandle<T>),
) {
    let runtime = runtime();
    let parked = waiting(&runtime, "parked", crate::park);
    assert!(if_all_others_slept(&runtime).is_some(), "without it no thread may");
    let waits = waiting(&runtime, "waits", wait);
    assert!(if_all_others_slept(&runtime).is_none());
    end(&waits);
    drop(waits.join());
    assert!(if_all_others_slept(&runtime).is_some(), "once it is gone no thread may");
    parked.fiber().unpark();
    parked.join().unwrap();
    assert!(if_all_others_slept(&runtime).is_none(), "no fiber is left");
}

#[test]
fn a_waiter_for_a_time_may_be_woken() {
    may_be_woken(|| crate::time::sleep(LONG), JoinHandle::cancel);
    may_be_woken(|| crate::time::sleep(Duration::MAX), JoinHandle::cancel);
    let semaphore = Semaphore::new(0);
    may_be_woken(move || drop(semaphore.acquire_timeout(1, LONG)), JoinHandle::cancel);
}

#[test]
fn a_waiter_for_a_blocking_call_may_be_woken() {
    let (send, receive) = mpsc::channel();
    may_be_woken(move || crate::blocking(move || receive.recv()), |_| send.send(()).unwrap());
}

#[test]
fn a_waiter_for_a_word_may_be_woken() {
    static POLLED: AtomicU64 = AtomicU64::new(0);
    static NOTIFIED: AtomicU64 = AtomicU64::new(0);
    let one = watch::equal(1);
    may_be_woken(move || watch::wait_until(&POLLED, one), |_| POLLED.store(1, Ordering::Release));
    may_be_woken(move || watch::wait_until_notified(&NOTIFIED, one), JoinHandle::cancel);
    let (area, mut slots) = watch::NotificationArea::<u64>::notified(1);
    let mut slot = slots.remove(0);
    may_be_woken(move || slot.wait(), |_| area.notify(0));
}

#[test]
fn nothing_is_reported_while_some_fiber_runs() {
    let runtime = runtime();
    let locks: Arc<[Mutex<()>; 2]> = Arc::default();
    let crossing = ["there", "back"].map(|name| {
        let (locks, first) = (locks.clone(), usize::from(name == "back"));
        let wait = move || {
            let _held = locks[first].lock().unwrap();
            crate::park();
            drop(locks[1 - first].lock().unwrap());
        };
        waiting(&runtime, name, wait)
    });
    crossing.iter().for_each(|fiber| fiber.fiber().unpark());
    until(|| if_all_others_slept(&runtime).is_some_and(|found| found.cycles.len() == 1));
    let (go_on, notified) = mpsc::channel();
    let (runs, running) = mpsc::channel();
    let busy = runtime.spawn(move || {
        runs.send(()).unwrap();
        notified.recv().unwrap();
    });
    running.recv().unwrap();
    assert!(caller::inner(&runtime).switches_if_idle().is_none());
    assert!(caller::inner(&runtime).deadlock(true, 0).is_none());
    go_on.send(()).unwrap();
    busy.join().unwrap();
    assert!(if_all_others_slept(&runtime).is_some());
}

fn handle_a_signal(handle: bool) {
    extern "C" fn handler(_: libc::c_int) {}
    let handler = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, if handle { handler } else { libc::SIG_DFL }) };
}

/// Runs a sampler besides the monitor's, in a process without other threads.
#[test]
fn each_standstill_is_reported_once_by_each_sampler_unless_a_signal_could_end_it() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    const NAME: &str = "deadlock_tests::\
        each_standstill_is_reported_once_by_each_sampler_unless_a_signal_could_end_it";
    child::in_child_well(NAME, || {
        if daiko_sys::thread::blocked_syscall(daiko_sys::thread::id()).is_none() {
            return println!("skipped: this kernel does not offer /proc/self/task/*/syscall");
        }
        static REPORTS: AtomicU32 = AtomicU32::new(0);
        let hook = |_: &Deadlock| _ = REPORTS.fetch_add(1, Ordering::Relaxed);
        handle_a_signal(true);
        let runtime = Runtime::builder().workers(1).on_deadlock(hook).build().unwrap();
        let parked = waiting(&runtime, "parked", || {
            loop {
                crate::park();
            }
        });
        let mut sampler = StuckSampler::new();
        until(|| caller::inner(&runtime).switches_if_idle().is_some());
        (0..10).for_each(|_| assert!(sampler.look(caller::inner(&runtime)).is_some()));
        assert_eq!(REPORTS.load(Ordering::Relaxed), 0, "a signal could wake a fiber");
        handle_a_signal(false);
        for round in 1..=3 {
            until(|| {
                let _ = sampler.look(caller::inner(&runtime));
                REPORTS.load(Ordering::Relaxed) == 2 * round
            });
            (0..10).for_each(|_| assert!(sampler.look(caller::inner(&runtime)).is_none()));
            assert_eq!(REPORTS.load(Ordering::Relaxed), 2 * round);
            parked.fiber().unpark();
        }
    });
}

#[test]
fn a_running_thread_could_wake_a_fiber_and_a_waiting_thread_could_not() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    let runtime = runtime();
    assert!(Others::of(caller::inner(&runtime)).awake > 0, "the caller");
    let (send, receive) = mpsc::channel::<()>();
    let thread = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let tells = &thread;
        scope.spawn(move || {
            tells.store(daiko_sys::thread::id(), Ordering::Relaxed);
            receive.recv().unwrap();
        });
        until(|| thread.load(Ordering::Relaxed) != 0);
        let waits = thread.load(Ordering::Relaxed);
        let seen =
            || Others::of(caller::inner(&runtime)).used.into_iter().find(|(id, _)| *id == waits);
        if daiko_sys::thread::blocked_syscall(waits).is_some() {
            until(|| daiko_sys::thread::waits_for_another(waits));
            let before = seen().unwrap();
            assert_eq!(seen(), Some(before), "it has not run in between");
            send.send(()).unwrap();
            until(|| seen() != Some(before));
        } else {
            println!("skipped: this kernel does not offer /proc/self/task/*/syscall");
            send.send(()).unwrap();
        }
    });
}

#[test]
fn a_lock_is_its_holders_until_it_is_free_or_waits_for_a_condition() {
    let runtime = runtime();
    let pair = Arc::new((Mutex::new(()), Condvar::new()));
    let holder = {
        let pair = pair.clone();
        move || held::holder(std::ptr::from_ref(&pair.0).addr()).map(|held| held.by)
    };
    let me = Some(Who::Thread(daiko_sys::thread::id()));
    let locked = pair.0.lock().unwrap();
    assert_eq!(holder(), me);
    drop(locked);
    assert_eq!(holder(), None);
    let (waits, in_between) = (pair.clone(), holder.clone());
    let waiter = waiting(&runtime, "waiter", move || {
        let locked = waits.1.wait(waits.0.lock().unwrap()).unwrap();
        let by = in_between();
        drop(locked);
        by
    });
    assert_eq!(holder(), None);
    let locked = pair.0.try_lock().unwrap();
    assert_eq!(holder(), me);
    pair.1.notify_one();
    drop(locked);
    let id = std::ptr::from_ref(block(waiter.fiber())).addr();
    assert_eq!(waiter.join().unwrap(), Some(Who::Fiber(id)));
    assert_eq!(holder(), None);
}

#[test]
fn an_rwlock_is_held_by_its_writer_until_a_downgrade() {
    track();
    let lock = RwLock::new(());
    let writer = || held::holder(std::ptr::from_ref(&lock).addr()).map(|held| held.by);
    let me = Some(Who::Thread(daiko_sys::thread::id()));
    let held = lock.write().unwrap();
    assert_eq!(writer(), me);
    drop(held);
    assert_eq!(writer(), None);
    let held = lock.try_write().unwrap();
    assert_eq!(writer(), me);
    let reads = RwLockWriteGuard::downgrade(held);
    assert_eq!(writer(), None);
    drop((reads, lock.read().unwrap()));
    assert_eq!(writer(), None);
}

#[test]
fn a_once_is_held_by_its_caller_until_the_closure_ends() {
    track();
    let once = Once::new();
    let doer = || held::holder(std::ptr::from_ref(&once).addr()).map(|held| held.by);
    let me = Some(Who::Thread(daiko_sys::thread::id()));
    let run = |fails: bool| {
        once.call_once_force(|_| {
            assert_eq!(doer(), me);
            assert!(!fails, "as it should");
        });
    };
    assert!(std::panic::catch_unwind(|| run(true)).is_err());
    assert_eq!(doer(), None);
    run(false);
    assert_eq!((doer(), once.is_completed()), (None, true));
}

#[test]
fn reports_name_the_awaited_object_and_its_holder() {
    let runtime = runtime();
    let pair = Arc::new((Mutex::new(()), Condvar::new(), Semaphore::new(0)));
    let condvar = {
        let pair = pair.clone();
        waiting(&runtime, "condvar", move || drop(pair.1.wait(pair.0.lock().unwrap())))
    };
    let semaphore = {
        let pair = pair.clone();
        waiting(&runtime, "semaphore", move || drop(pair.2.acquire()))
    };
    let held = pair.0.lock().unwrap();
    let line = line!() - 1;
    let mutex = {
        let pair = pair.clone();
        waiting(&runtime, "mutex", move || drop(pair.0.lock().unwrap()))
    };
    let parked = waiting(&runtime, "park", crate::park);
    let parks = parked.fiber().clone();
    let join = waiting(&runtime, "join", move || parked.join().unwrap());

    let report = if_all_others_slept(&runtime).unwrap();
    assert!(report.cycles.is_empty() && report.unlisted == 0);
    assert_eq!(report.fibers.len(), 5);
    for fiber in &report.fibers {
        let (name, awaited) = (fiber.name.as_deref().unwrap(), &fiber.waits_for);
        assert_eq!(name, awaited.kind.to_lowercase(), "{report}");
        assert!(fiber.spawned_at.file().ends_with("tests.rs"));
        assert_eq!(awaited.address.is_none(), name == "park");
        assert_eq!(awaited.held_by.is_some(), ["mutex", "join"].contains(&name), "{report}");
        let address = match name {
            "condvar" => std::ptr::from_ref(&pair.1).addr(),
            "semaphore" => std::ptr::from_ref(&pair.2).addr(),
            "mutex" => std::ptr::from_ref(&pair.0).addr(),
            "join" => std::ptr::from_ref(block(&parks)).addr(),
            _ => continue,
        };
        assert_eq!(awaited.address, Some(address), "{name}");
    }
    let holder = |name: &str| {
        let mut fibers = report.fibers.iter();
        let fiber = fibers.find(|fiber| fiber.name.as_deref() == Some(name)).unwrap();
        fiber.waits_for.held_by.clone().unwrap()
    };
    let mine = std::thread::current().name().map(|name| name[..15].to_owned());
    assert_eq!((holder("mutex").fiber, holder("mutex").name), (None, mine));
    assert_eq!(holder("mutex").locked_at.map(std::panic::Location::line), Some(line));
    assert_eq!(holder("join").name.as_deref(), Some("park"));

    drop(held);
    parks.unpark();
    pair.1.notify_all();
    pair.2.add_permits(1);
    for fiber in [condvar, semaphore, mutex, join] {
        fiber.join().unwrap();
    }
}
