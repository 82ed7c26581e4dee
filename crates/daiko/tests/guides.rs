//! The messages that the guides quote are those of the code. Their examples are tests of their own.

mod support;

use std::sync::Arc;
use std::time::Duration;

use daiko::sync::{Barrier, Condvar, Mutex, Once};
use daiko::{Builder, JoinError, JoinHandle, Runtime, SpawnError, StackError};
use support::{panic_of, workers};

const FROM_STD: &str = include_str!("../src/guide/from_std.md");
const PLACEMENT: &str = include_str!("../src/guide/placement.md");
const BLOCKING: &str = include_str!("../src/guide/blocking.md");

/// Checks that `message` is the first cell of a row of the guide.
#[track_caller]
fn assert_quoted(guide: &str, message: &str) {
    assert!(guide.contains(&format!("\n| `{message}` |")), "not quoted: {message}");
}

/// Checks, as [`assert_quoted`] does, a message that ends with a place.
#[track_caller]
fn assert_quoted_before_a_place(guide: &str, message: &str) {
    let (text, _place) = message.split_once(file!()).expect("a place in this file");
    assert!(guide.contains(&format!("\n| `{text}src/main.rs:7:24` |")), "not quoted: {text}");
}

#[test]
fn a_call_outside_of_a_fiber_panics_as_quoted() {
    assert_quoted(FROM_STD, &panic_of(daiko::park));
}

#[test]
fn joins_fail_as_quoted() {
    let runtime = workers(1);
    let panicked: JoinHandle<()> = runtime.spawn(|| std::panic::resume_unwind(Box::new(())));
    assert_quoted(FROM_STD, &panicked.join().unwrap_err().to_string());
    assert_quoted(FROM_STD, &JoinError::Cancelled.to_string());
    assert_quoted(FROM_STD, &JoinError::Itself.to_string());
    assert_quoted(BLOCKING, &JoinError::Leaked.to_string());
    let unjoined = || {
        runtime.scope(|s| {
            s.spawn(|| std::panic::resume_unwind(Box::new(())));
        });
    };
    assert_quoted(FROM_STD, &panic_of(unjoined));
}

#[test]
fn spawns_fail_as_quoted() {
    let runtime = workers(2);
    let nowhere = runtime.spawn_with(Builder::new().on(7), || ()).unwrap_err();
    assert_quoted(PLACEMENT, &nowhere.to_string());
    assert_quoted(FROM_STD, &SpawnError::ShuttingDown.to_string());
    let mappings = StackError::Memory(daiko_sys::memory::MemoryError::Mappings);
    assert_quoted(FROM_STD, &mappings.to_string());
}

#[test]
fn a_shutdown_by_its_own_fiber_panics_as_quoted() {
    let runtime = workers(1);
    let inside = Arc::new(Mutex::new(None));
    let taken = Arc::clone(&inside);
    let (tell, told) = daiko::sync::channel::oneshot::<()>();
    let body = move || {
        let _ = told.recv();
        let runtime: Runtime = taken.lock().unwrap().take().expect("it was put there");
        panic_of(|| runtime.shutdown())
    };
    let fiber = runtime.spawn(body);
    *inside.lock().unwrap() = Some(runtime);
    tell.send(()).unwrap();
    assert_quoted(FROM_STD, &fiber.join().unwrap());
}

#[test]
fn misused_locks_panic_as_quoted() {
    let _tracking = Runtime::builder().workers(1).on_deadlock(|_| ()).build().unwrap();
    let mutex = Mutex::new(());
    let held = mutex.lock().unwrap();
    let twice = panic_of(|| mutex.lock());
    drop(held);
    assert_quoted_before_a_place(FROM_STD, &twice);
    assert_quoted_before_a_place(BLOCKING, &twice);
    assert_quoted(FROM_STD, &panic_of(|| Barrier::new(0)));
    let once = Once::new();
    assert_quoted(FROM_STD, &panic_of(|| once.call_once(|| once.call_once(|| ()))));
    assert_quoted(FROM_STD, &panic_of(|| once.call_once(|| ())));
}

#[test]
fn a_condvar_with_two_mutexes_panics_as_quoted() {
    let runtime = workers(1);
    let shared = Arc::new((Condvar::new(), Mutex::new(())));
    let theirs = Arc::clone(&shared);
    let waiter = runtime.spawn(move || {
        let (condvar, mutex) = &*theirs;
        drop(condvar.wait(mutex.lock().unwrap()));
    });
    let text = runtime.run(move || {
        let (condvar, _) = &*shared;
        let other = Mutex::new(());
        // The two mutexes only conflict once the waiter waits. Until then each wait ends at once.
        let wait = || drop(condvar.wait_timeout(other.lock().unwrap(), Duration::ZERO));
        std::iter::repeat_with(|| {
            daiko::yield_now();
            panic_of(wait)
        })
        .find(|text| text != "no panic")
    });
    waiter.cancel();
    assert_quoted(FROM_STD, &text.expect("it is repeated for ever"));
}

#[test]
fn forbidden_waits_panic_as_quoted() {
    let runtime = workers(1);
    let text = runtime.run(|| panic_of(|| daiko::no_suspend(daiko::yield_now)));
    assert_quoted(PLACEMENT, &text);
    let mutex = Arc::new(Mutex::new(()));
    let held = mutex.lock().unwrap();
    let (theirs, (tell, told)) = (Arc::clone(&mutex), std::sync::mpsc::channel());
    let registration = runtime.run(move || {
        daiko::agent::register(move || {
            let _ = tell.send(panic_of(|| theirs.lock()));
            0
        })
    });
    assert_quoted(BLOCKING, &told.recv().unwrap());
    drop((registration, held));
}

#[test]
fn a_local_that_is_gone_panics_as_quoted() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            // The destructor uses the local that is being dropped.
            let text = panic_of(|| LATE.with(|_| ()));
            TEXT.lock().unwrap().push_str(&text);
        }
    }
    static TEXT: Mutex<String> = Mutex::new(String::new());
    daiko::fiber_local!(static LATE: Late = const { Late });
    daiko::run(|| LATE.with(|_| ()));
    assert_quoted(PLACEMENT, &TEXT.lock().unwrap());
}

#[test]
fn pairing_of_unbound_workers_is_refused_as_quoted() {
    let error = Runtime::builder().bind(false).pairing(true).build().unwrap_err();
    assert_quoted(PLACEMENT, &error.to_string());
}

#[test]
fn cpus_that_are_not_allowed_are_refused_as_quoted() {
    let error = Runtime::builder().cpus([4096]).build().unwrap_err().to_string();
    let (before, after) = error.split_once("among [").expect("a list of CPUs");
    let (_cpus, after) = after.split_once(']').expect("its end");
    assert_quoted(PLACEMENT, &format!("{before}among [0, 1]{after}"));
}
