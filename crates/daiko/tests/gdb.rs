//! The script for gdb, `crates/rt/gdb/daiko.py`, which this program contains.

#[path = "../../../tests/child.rs"]
mod child;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::{env, fs, process};

use child::{ReadyChild, is_child};

/// Runs gdb's commands on the process of the subject, which goes on afterwards. `None`, with a line
/// that says why: it cannot be done here.
fn gdb_of(subject: &ReadyChild, commands: &[&str]) -> Option<String> {
    gdb(&["-p", &subject.id().to_string()], commands)
}

/// Runs gdb's commands on the process or the core file of `subject`.
fn gdb(subject: &[&str], commands: &[&str]) -> Option<String> {
    if child::emulated::is_skipped("which gdb would trace") {
        return None;
    }
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set auto-load safe-path /"]);
    gdb.args(["-iex", "set debuginfod enabled off"]).args(subject);
    commands.iter().for_each(|command| {
        gdb.args(["-ex", command]);
    });
    let Ok(output) = gdb.output() else {
        println!("skipped: gdb is not installed");
        return None;
    };
    let [text, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if errors.contains("ptrace") || errors.contains("Could not attach") {
        println!("skipped: gdb may not trace processes here");
        return None;
    }
    assert!(!errors.contains("Traceback") && !errors.contains("Python Exception"), "{errors}");
    Some(text + &errors)
}

/// A holder, waiters for its lock, and a fiber that waits for one of these.
fn waiting_fibers(waiters: usize) {
    daiko::run(move || {
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        let held = lock.lock();
        let mut fibers: Vec<_> = (0..waiters)
            .map(|index| {
                let lock = Arc::clone(&lock);
                let fiber = daiko::Builder::new().name(format!("waiter-{index}"));
                fiber.spawn(move || waits_for_the_lock(&lock)).unwrap()
            })
            .collect();
        let first = fibers.remove(0);
        let joiner = daiko::Builder::new().name("joiner");
        fibers.push(joiner.spawn(move || first.join().unwrap()).unwrap());
        // The main fiber and these have started: none of them has more to do.
        let starts = || daiko::default_runtime().counters().iter().map(|of| of.starts).sum::<u64>();
        while starts() < waiters as u64 + 2 {
            daiko::yield_now();
        }
        daiko::blocking(child::ready);
        drop(held);
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        println!("goes on");
    });
}

#[inline(never)]
fn waits_for_the_lock(lock: &daiko::sync::Mutex<()>) {
    let held = lock.lock();
    std::hint::black_box(&held);
}

fn line_with<'t>(text: &'t str, word: &str) -> &'t str {
    text.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {text}"))
}

#[test]
fn fibers_are_listed_and_shown_and_the_process_goes_on() {
    let test = "fibers_are_listed_and_shown_and_the_process_goes_on";
    let mut subject = ReadyChild::of(test, || waiting_fibers(3));
    let Some(text) = gdb_of(&subject, &["info fibers"]) else { return };
    let waiter = line_with(&text, "waiter-1");
    assert!(waiter.contains("waiting") && waiter.contains("Mutex 0x"), "{text}");
    assert!(waiter.contains("tests/gdb.rs:"), "{text}");
    assert!(line_with(&text, "joiner").contains("join 0x"), "{text}");
    let number = waiter.split_whitespace().next().unwrap();
    let text =
        gdb_of(&subject, &[&format!("fiber {number}"), "fiber 0", "echo the thread\\n", "bt"]);
    let text = text.unwrap();
    let (fiber, thread) = text.split_once("the thread").unwrap();
    assert!(fiber.contains("waits_for_the_lock") && fiber.contains("first_frame"), "{text}");
    assert!(!thread.contains("waits_for_the_lock"), "{text}");
    subject.child.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    subject.await_line("goes on");
}

#[test]
fn a_thousand_fibers_are_shown() {
    let subject = ReadyChild::of("a_thousand_fibers_are_shown", || waiting_fibers(1000));
    let Some(text) = gdb_of(&subject, &["fiber apply all bt"]) else { return };
    let shown = text.lines().filter(|line| line.contains("waits_for_the_lock")).count();
    assert_eq!(shown, 1000, "{text}");
}

#[test]
fn a_stripped_program_is_read() {
    let test = "a_stripped_program_is_read";
    if is_child() {
        return waiting_fibers(3);
    }
    if child::emulated::is_skipped("which gdb would trace") {
        return;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gdb-{}", process::id()));
    let mut strip = Command::new("strip");
    match strip.arg("-o").arg(&program).arg(env::current_exe().unwrap()).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return println!("skipped: strip is not installed"),
    }
    let subject = ReadyChild::start(child::command_of(&program, test));
    let text = gdb_of(&subject, &["info fibers"]);
    fs::remove_file(&program).unwrap();
    let Some(text) = text else { return };
    assert!(line_with(&text, "waiter-1").contains("Mutex 0x"), "{text}");
}

#[test]
fn a_core_file_of_gcore_names_what_is_missing() {
    let subject =
        ReadyChild::of("a_core_file_of_gcore_names_what_is_missing", || waiting_fibers(3));
    if child::emulated::is_skipped("which gcore would trace") {
        return;
    }
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gdb-core");
    let id = subject.id().to_string();
    let written = Command::new("gcore").arg("-o").arg(&prefix).arg(&id).output();
    let Some(core) = written.ok().map(|_| format!("{}.{id}", prefix.display())) else {
        return println!("skipped: gcore is not installed");
    };
    if !Path::new(&core).exists() {
        return println!("skipped: gcore may not trace processes here");
    }
    let program = env::current_exe().unwrap();
    let files = [program.to_str().unwrap(), &core];
    let text = gdb(&files, &["info fibers"]);
    fs::remove_file(&core).unwrap();
    let text = text.unwrap();
    // A gcore that reads guards lists all of them.
    if !text.contains("waiter-1") {
        line_with(&text, "stacks are missing in this core file");
        line_with(&text, "write it with `daiko core PID`, not gcore.");
    }
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let subject = ReadyChild::of("bad_input_is_refused_in_one_line", || waiting_fibers(1));
    let Some(text) = gdb_of(&subject, &["fiber 99"]) else { return };
    line_with(&text, "There is no fiber 99: `info fibers` lists them.");
    line_with(&gdb_of(&subject, &["fiber apply"]).unwrap(), "Say which fibers and which command");
    // Of another version, in the memory of the subject only.
    let version = "set var *(unsigned *)((char *)&daiko_inspect + 8) = 99";
    let text = gdb_of(&subject, &[version, "info fibers"]).unwrap();
    line_with(
        &text,
        "The table of fibers has version 99, this script knows 1: source the daiko.py",
    );
}
