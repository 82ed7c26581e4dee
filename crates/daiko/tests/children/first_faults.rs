//! Reports that builds with debug assertions print unasked, about programs that are stuck.

#![cfg(debug_assertions)]

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::support::child::emulated::LinuxPart;
use crate::support::child::{Killed, command, is_child};
use crate::support::{end, until, workers, yield_until};
use daiko::{Builder, Runtime};

/// Returns what the child of this test writes to standard error up to the line with the remedy.
fn report_of(name: &str) -> String {
    let mut child = Killed(command(name).stderr(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let lines = lines.skip_while(|line| !line.starts_with("daiko: "));
    let mut text = String::new();
    for line in lines {
        text += &format!("{line}\n");
        if line.starts_with("  remedy: ") {
            return text;
        }
    }
    panic!("no report: {text}");
}

/// A fiber holds a lock of `std` over a suspension, and its neighbour asks for the lock.
fn hold_a_lock_over_a_suspension() {
    let lock = Arc::new(Mutex::new(0));
    let fibers = ["holder", "asks"].map(|name| {
        let lock = lock.clone();
        let add = move || {
            let mut guard = lock.lock().unwrap();
            daiko::yield_now();
            *guard += 1;
        };
        Builder::new().on(0).name(name).spawn(add).unwrap()
    });
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

#[test]
fn a_lock_of_std_over_a_suspension_is_reported_with_its_holder() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    let name = "first_faults::a_lock_of_std_over_a_suspension_is_reported_with_its_holder";
    if is_child() {
        daiko::run(hold_a_lock_over_a_suspension);
    }
    let text = report_of(name);
    let first = text.lines().next().unwrap();
    assert!(first.contains("worker 0 is stuck in fiber \"asks\", spawned at crates/"), "{text}");
    assert!(text.contains("    fiber \"holder\", spawned at crates/daiko/tests/"), "{text}");
    if first.ends_with("is blocked in futex") {
        assert!(text.contains("one of them may hold the lock"), "{text}");
        assert!(text.contains("use daiko::sync"), "{text}");
    } else {
        assert!(first.ends_with("is in state S"), "the kernel names no call: {text}");
    }
}

#[test]
fn a_spin_is_reported() {
    let name = "first_faults::a_spin_is_reported";
    if is_child() {
        daiko::run(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    let text = report_of(name);
    assert!(text.lines().next().unwrap().ends_with("its thread runs"), "{text}");
    assert!(text.contains("no other fiber that has started there could run"), "{text}");
    assert!(text.contains("daiko::yield_now"), "{text}");
}

#[test]
fn a_sleep_of_std_is_reported_with_its_call_and_the_fibers_behind_it() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    let name = "first_faults::a_sleep_of_std_is_reported_with_its_call_and_the_fibers_behind_it";
    if is_child() {
        workers(1).run(|| {
            static STARTED: AtomicUsize = AtomicUsize::new(0);
            for _ in 0..3 {
                drop(daiko::spawn(|| {
                    STARTED.fetch_add(1, Ordering::Relaxed);
                    loop {
                        daiko::yield_now();
                    }
                }));
            }
            yield_until("three that yield", || STARTED.load(Ordering::Relaxed) == 3);
            thread::sleep(Duration::from_secs(3600));
        });
    }
    let text = report_of(name);
    let first = text.lines().next().unwrap();
    assert!(
        first.ends_with("is blocked in clock_nanosleep") || first.ends_with("state S"),
        "{text}"
    );
    assert!(text.contains("3 runnable fibers wait behind it:\n    3 fibers, spawned at"), "{text}");
    assert!(text.contains("daiko::blocking"), "{text}");
}

/// Keeps the only worker of `runtime` until `release` yields.
fn hog(runtime: &Runtime, release: mpsc::Receiver<()>) -> daiko::JoinHandle<()> {
    runtime.spawn(move || release.recv().unwrap())
}

/// Waits until the monitor has looked often: until that of another runtime has seen ten looks.
fn until_the_monitor_has_looked() {
    let other = Runtime::builder().workers(1).on_stuck(|_| ()).build().unwrap();
    let (release, held) = mpsc::channel();
    let fiber = hog(&other, held);
    until("ten looks", || other.counters()[0].stuck == 1);
    release.send(()).unwrap();
    fiber.join().unwrap();
    end(other);
}

#[test]
fn a_stuck_worker_is_reported_once() {
    let name = "first_faults::a_stuck_worker_is_reported_once";
    if is_child() {
        let runtime = workers(1);
        let (release, held) = mpsc::channel();
        let fiber = hog(&runtime, held);
        // The end of the input says that the parent has seen the report.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        until_the_monitor_has_looked();
        release.send(()).unwrap();
        fiber.join().unwrap();
        end(runtime);
        std::process::exit(0);
    }
    let mut command = command(name);
    let mut child = Killed(command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut errors = BufReader::new(child.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("remedy: ") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "no report");
    }
    drop(child.0.stdin.take());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("is stuck"), "{rest}");
    child.ends_well();
}

#[test]
fn with_a_hook_nothing_is_printed() {
    let name = "first_faults::with_a_hook_nothing_is_printed";
    if is_child() {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let hook = |stuck: &daiko::Stuck| {
            assert!(stuck.to_string().starts_with("daiko: worker 0 is stuck in a fiber"));
            TOLD.store(true, Ordering::Release);
        };
        let runtime = Runtime::builder().workers(1).on_stuck(hook).build().unwrap();
        let other = workers(1);
        let ((release, held), (free, kept)) = (mpsc::channel(), mpsc::channel());
        let fibers = [hog(&runtime, held), hog(&other, kept)];
        // The other runtime, without a hook, is reported: by then this one could have been.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        until_the_monitor_has_looked();
        assert!(TOLD.load(Ordering::Acquire));
        [release, free].iter().for_each(|send| send.send(()).unwrap());
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        std::process::exit(0);
    }
    let mut command = command(name);
    let mut child = Killed(command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut errors = BufReader::new(child.0.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("remedy: ") {
        assert_ne!(errors.read_line(&mut text).unwrap(), 0, "no report");
    }
    drop(child.0.stdin.take());
    errors.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("is stuck").count(), 1, "{text}");
    child.ends_well();
}
