//! The script for gdb, `crates/rt/gdb/daiko.py`, which this program contains.
//!
//! A subject is this test program once more. It says "ready" and then waits for its input.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::{env, fs, process};

const SUBJECT: &str = "DAIKO_GDB_SUBJECT";

/// A child that is looked at. It ends with this value.
struct Subject {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Subject {
    fn start(program: &Path, test: &str) -> Self {
        let mut child = Command::new(program)
            .args(["--exact", test, "--nocapture"])
            .env(SUBJECT, test)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut subject = Subject { child, output };
        subject.await_line("ready");
        subject
    }

    fn await_line(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim() != wanted {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the subject has ended");
        }
    }

    /// Runs gdb's commands on the process, which goes on afterwards. `None`, with a line that says
    /// why: it cannot be done here.
    fn gdb(&self, commands: &[&str]) -> Option<String> {
        gdb(&["-p", &self.child.id().to_string()], commands)
    }
}

/// Runs gdb's commands on the process or the core file of `subject`.
fn gdb(subject: &[&str], commands: &[&str]) -> Option<String> {
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

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `subject` in the child, and returns the child to the test.
fn subject(test: &str, subject: fn()) -> Subject {
    if env::var(SUBJECT).is_ok_and(|subject| subject == test) {
        subject();
        process::exit(0);
    }
    Subject::start(&env::current_exe().unwrap(), test)
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
        daiko::blocking(|| {
            println!("ready");
            let _ = std::io::stdin().read(&mut [0]);
        });
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
    let mut subject = subject(test, || waiting_fibers(3));
    let Some(text) = subject.gdb(&["info fibers"]) else { return };
    let waiter = line_with(&text, "waiter-1");
    assert!(waiter.contains("waiting") && waiter.contains("Mutex 0x"), "{text}");
    assert!(waiter.contains("tests/gdb.rs:"), "{text}");
    assert!(line_with(&text, "joiner").contains("join 0x"), "{text}");
    let number = waiter.split_whitespace().next().unwrap();
    let text = subject.gdb(&[&format!("fiber {number}"), "fiber 0", "echo the thread\\n", "bt"]);
    let text = text.unwrap();
    let (fiber, thread) = text.split_once("the thread").unwrap();
    assert!(fiber.contains("waits_for_the_lock") && fiber.contains("first_frame"), "{text}");
    assert!(!thread.contains("waits_for_the_lock"), "{text}");
    subject.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    subject.await_line("goes on");
}

#[test]
fn a_thousand_fibers_are_shown() {
    let subject = subject("a_thousand_fibers_are_shown", || waiting_fibers(1000));
    let Some(text) = subject.gdb(&["fiber apply all bt"]) else { return };
    let shown = text.lines().filter(|line| line.contains("waits_for_the_lock")).count();
    assert_eq!(shown, 1000, "{text}");
}

#[test]
fn a_stripped_program_is_read() {
    let test = "a_stripped_program_is_read";
    if env::var(SUBJECT).is_ok_and(|subject| subject == test) {
        waiting_fibers(3);
        process::exit(0);
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gdb-{}", process::id()));
    let mut strip = Command::new("strip");
    match strip.arg("-o").arg(&program).arg(env::current_exe().unwrap()).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return println!("skipped: strip is not installed"),
    }
    let subject = Subject::start(&program, test);
    let text = subject.gdb(&["info fibers"]);
    fs::remove_file(&program).unwrap();
    let Some(text) = text else { return };
    assert!(line_with(&text, "waiter-1").contains("Mutex 0x"), "{text}");
}

#[test]
fn a_core_file_of_gcore_names_what_is_missing() {
    let subject = subject("a_core_file_of_gcore_names_what_is_missing", || waiting_fibers(3));
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gdb-core");
    let id = subject.child.id().to_string();
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
    let subject = subject("bad_input_is_refused_in_one_line", || waiting_fibers(1));
    let Some(text) = subject.gdb(&["fiber 99"]) else { return };
    line_with(&text, "There is no fiber 99: `info fibers` lists them.");
    line_with(&subject.gdb(&["fiber apply"]).unwrap(), "Say which fibers and which command");
    // Of another version, in the memory of the subject only.
    let version = "set var *(unsigned *)((char *)&daiko_inspect + 8) = 99";
    let text = subject.gdb(&[version, "info fibers"]).unwrap();
    line_with(
        &text,
        "The table of fibers has version 99, this script knows 1: source the daiko.py",
    );
}
