//! Dumps of all fibers: by a call, and by a signal.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;

use crate::support::child::emulated::LinuxPart;
use crate::support::child::{command, is_child, stderr, stdout};
use crate::support::run_on;
use crate::support::seccomp::forbid;
use daiko::sync::Mutex;
use daiko::{BuildError, Builder, Runtime};

fn text() -> String {
    let mut text = Vec::new();
    daiko::dump(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Runs `body` beside ten fibers that wait for one lock.
fn beside_waiters(body: impl FnOnce()) {
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock();
    let waiters: Vec<_> = (0..10)
        .map(|index| {
            let (lock, fiber) = (Arc::clone(&lock), Builder::new().name(format!("w{index}")));
            fiber.spawn(move || drop(lock.lock())).unwrap()
        })
        .collect();
    body();
    drop(held);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}

#[test]
fn a_dump_groups_fibers_that_wait_for_one_object() {
    if LinuxPart::ProcessMemory.is_lacking() {
        return;
    }
    run_on(Runtime::builder().workers(2), || {
        beside_waiters(|| {
            let waits = |text: &str| text.contains("10 fibers waiting: Mutex 0x");
            while !waits(&text()) {
                daiko::yield_now();
            }
            let text = text();
            assert!(text.contains("('w0', 'w1', 'w2', ..)"), "{text}");
            assert!(text.contains("tests/children/dump.rs:"), "{text}");
            assert!(text.lines().next().unwrap().contains("10 waiting"), "{text}");
        });
    });
}

#[test]
fn a_signal_asks_for_a_dump_and_the_process_goes_on() {
    if LinuxPart::ProcessMemory.is_lacking() {
        return;
    }
    const NAME: &str = "dump::a_signal_asks_for_a_dump_and_the_process_goes_on";
    if is_child() {
        run_on(Runtime::builder().workers(1).dump_on_signal(true), || {
            beside_waiters(|| {
                // The one worker is stuck in this call: the dump comes all the same.
                println!("ready");
                let _ = std::io::stdin().read(&mut [0]);
            });
        });
        return;
    }
    let mut child = command(NAME);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().ends_with("ready")));
    let mut dumps = BufReader::new(child.stderr.take().unwrap()).lines();
    for _ in 0..2 {
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGQUIT) }, 0);
        let head = dumps.find(|line| line.as_ref().unwrap().contains(": release ")).unwrap();
        assert!(head.unwrap().contains("11 fibers"));
        assert!(dumps.by_ref().any(|line| line.unwrap().starts_with("10 fibers ")));
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_handler_of_the_program_stays() {
    const NAME: &str = "dump::a_handler_of_the_program_stays";
    if is_child() {
        // SAFETY: ignores a signal.
        unsafe { libc::signal(libc::SIGQUIT, libc::SIG_IGN) };
        let error = Runtime::builder().workers(1).build().unwrap_err();
        assert!(matches!(error, BuildError::DumpSignal(_)), "{error:?}");
        println!("error: {error}");
        // SAFETY: asks for the signal's action, and sets it to the same.
        assert_eq!(unsafe { libc::signal(libc::SIGQUIT, libc::SIG_IGN) }, libc::SIG_IGN);
        return;
    }
    let output = command(NAME).env("DAIKO_DUMP", "1").output().unwrap();
    let (out, err) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{out}{err}");
    assert!(
        out.contains("error: SIGQUIT cannot ask for dumps: the program has a handler"),
        "{out}"
    );
}

#[test]
fn a_variable_with_another_value_is_an_error_in_one_line() {
    const NAME: &str = "dump::a_variable_with_another_value_is_an_error_in_one_line";
    if is_child() {
        println!("error: {}", Runtime::builder().workers(1).build().unwrap_err());
        return;
    }
    for name in ["DAIKO_DUMP", "DAIKO_TRACK_LOCKS"] {
        for value in ["", "0", "yes"] {
            let output = command(NAME).env(name, value).output().unwrap();
            let out = stdout(&output);
            let told = format!("error: {name} is {value:?}: set it to 1, or unset it");
            assert!(out.contains(&told), "{out}{}", stderr(&output));
        }
    }
}

/// A filter forbids the call, as containers do: a dump is an error.
#[test]
fn a_dump_says_that_the_kernel_refuses_it() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    const NAME: &str = "dump::a_dump_says_that_the_kernel_refuses_it";
    if is_child() {
        forbid(libc::SYS_process_vm_readv, libc::EPERM);
        let error = daiko::dump(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("process_vm_readv"), "{error}");
        println!("refused");
        return;
    }
    let output = command(NAME).output().unwrap();
    let out = stdout(&output);
    assert!(out.contains("refused"), "{out}{}", stderr(&output));
}
