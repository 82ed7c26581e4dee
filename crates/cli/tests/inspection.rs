//! The commands that look into other processes, from a user's view.

#[path = "../../../tests/child.rs"]
mod child;
#[path = "../../../tests/dumped.rs"]
mod dumped;

use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use child::{Killed, ReadyChild, ready, with_default_signals};
use dumped::are_waiting;
use serde_json::Value;

fn daiko(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daiko"));
    command.args(arguments).current_dir(env::temp_dir());
    with_default_signals(&mut command).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
fn told(arguments: &[&str]) -> String {
    let output = daiko(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn assert_refused(arguments: &[&str], wanted: &str) {
    let output = daiko(arguments);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
    assert_eq!(complaint.lines().count(), 1, "{arguments:?}: {complaint}");
    assert!(complaint.contains(wanted), "{arguments:?}: {complaint}");
}

/// Runs `looks` beside a subject with a holder, ten waiters, and two fibers that wait for each
/// other's lock.
fn beside_fibers(test: &str, looks: impl FnOnce(&str)) {
    let subject = ReadyChild::of(test, fibers);
    looks(&subject.id().to_string());
}

fn fibers() {
    let runtime = daiko::Runtime::builder().workers(2).track_locks(true).build().unwrap();
    runtime.run(|| {
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        let _held = lock.lock();
        let _waiters: Vec<_> = (0..10).map(|index| waiter(&lock, index)).collect();
        let [one, other] = [(); 2].map(|()| Arc::new(daiko::sync::Mutex::new(())));
        let both = Arc::new(daiko::sync::Barrier::new(3));
        let [_one, _other] = [[&one, &other], [&other, &one]].map(|[own, wanted]| {
            let (own, wanted, both) = (Arc::clone(own), Arc::clone(wanted), Arc::clone(&both));
            daiko::spawn(move || {
                let _held = own.lock();
                both.wait();
                drop(wanted.lock());
            })
        });
        both.wait();
        while !are_waiting(12) {
            daiko::yield_now();
        }
        daiko::blocking(ready);
    });
}

fn waiter(lock: &Arc<daiko::sync::Mutex<()>>, index: usize) -> daiko::JoinHandle<()> {
    let (lock, fiber) = (Arc::clone(lock), daiko::Builder::new().name(format!("waiter-{index}")));
    fiber.spawn(move || drop(lock.lock())).unwrap()
}

#[test]
fn ps_lists_fibers_and_folds_equal_stacks() {
    beside_fibers("ps_lists_fibers_and_folds_equal_stacks", |id| {
        assert!(told(&["ps"]).lines().any(|line| line.trim_start().starts_with(id)));
        let rows = told(&["ps", id]);
        assert_eq!(rows.lines().filter(|line| line.contains("'waiter-")).count(), 10, "{rows}");
        assert!(rows.contains("Mutex 0x") && rows.contains("inspection.rs:"), "{rows}");
        let unique = told(&["ps", id, "--stacks=unique"]);
        assert!(unique.contains("\n10 fibers waiting: Mutex 0x"), "{unique}");
        assert!(!unique.contains("switch"), "the runtime's frames are left out: {unique}");
        assert!(told(&["ps", id, "--stacks", "--full"]).contains("switch"));
        let folded = told(&["ps", id, "--stacks=folded"]);
        assert!(folded.lines().any(|line| line.ends_with("[Mutex] 10")), "{folded}");
        let waiting = told(&["ps", id, "--state=parked"]);
        assert!(!waiting.contains("waiter-"), "{waiting}");
        let stopped = told(&["ps", id, "--stacks", "--stop"]);
        assert_eq!(stopped.matches("'waiter-").count(), 10, "{stopped}");
        assert_eq!(told(&["ps", id]).matches("'waiter-").count(), 10, "it goes on");
    });
}

#[test]
fn ps_prints_json_for_programs() {
    beside_fibers("ps_prints_json_for_programs", |id| {
        let json = told(&["ps", id, "--stacks", "--json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let fibers = json["fibers"].as_array().unwrap();
        let waiters = fibers.iter().filter(|fiber| fiber["name"].is_string());
        let waiters: Vec<_> = waiters.collect();
        assert_eq!(waiters.len(), 10);
        for waiter in waiters {
            assert_eq!(waiter["wait"]["kind"], "Mutex");
            assert_eq!(waiter["wait"]["object"], fibers[1]["wait"]["object"]);
            assert!(!waiter["stack"].as_array().unwrap().is_empty());
        }
        let workers = json["runtimes"][0]["workers"].as_array().unwrap();
        assert!(workers[0]["counters"]["switches"].is_u64(), "{workers:?}");
    });
}

#[test]
fn deadlock_names_the_cycle_and_says_so_by_its_exit_code() {
    beside_fibers("deadlock_names_the_cycle_and_says_so_by_its_exit_code", |id| {
        let output = daiko(&["deadlock", id]);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{found}{}", text(&output.stderr));
        assert!(found.starts_with("deadlock: a cycle of 2 waits\n"), "{found}");
        assert_eq!(found.matches("held by the next since").count(), 2, "{found}");
        let json = daiko(&["deadlock", id, "--json"]);
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["cycles"][0].as_array().unwrap().len(), 2);
    });
}

#[test]
fn top_prints_pictures_where_the_output_is_no_terminal() {
    beside_fibers("top_prints_pictures_where_the_output_is_no_terminal", |id| {
        let text = told(&["top", id, "--count=2"]);
        let heads = text.lines().filter(|line| line.contains("SWITCHES/s"));
        assert_eq!(heads.count(), 2, "{text}");
        let waits = |line: &str| line.contains(">= ") && line.contains("     10  Mutex");
        let waits: Vec<_> = text.lines().filter(|line| waits(line)).collect();
        assert!(waits.len() == 2 && !waits[1].contains(">= 0"), "the ten have waited: {text}");
        assert!(!text.contains('\x1b'), "{text}");
    });
}

/// A terminal of its own, of which the child has one end.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut own, mut child) = (-1, -1);
    let size = libc::winsize { ws_row: 20, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    let (none, default) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: writes two live locals; reads a third. The descriptors are new.
    unsafe {
        let opened = libc::openpty(&raw mut own, &raw mut child, none, default, &raw const size);
        assert_eq!(opened, 0);
        (OwnedFd::from_raw_fd(own), OwnedFd::from_raw_fd(child))
    }
}

fn echoes(terminal: &OwnedFd) -> bool {
    let mut setting = std::mem::MaybeUninit::uninit();
    // SAFETY: writes the live local.
    let setting: libc::termios = unsafe {
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), setting.as_mut_ptr()), 0);
        setting.assume_init()
    };
    setting.c_lflag & libc::ECHO != 0
}

#[test]
fn top_leaves_a_terminal_as_it_was() {
    beside_fibers("top_leaves_a_terminal_as_it_was", |id| {
        for end in [b"q", b"\x03"] {
            let (own, child_end) = terminal();
            let mut command = Command::new(env!("CARGO_BIN_EXE_daiko"));
            command.args(["top", id]);
            command.stdin(child_end.try_clone().unwrap()).stdout(child_end.try_clone().unwrap());
            let mut top = with_default_signals(&mut command).spawn().unwrap();
            let mut screen = File::from(own.try_clone().unwrap());
            let (mut text, mut some) = (String::new(), [0; 4096]);
            while !text.contains("LONGEST WAITS") {
                let count = screen.read(&mut some).unwrap();
                text.push_str(&String::from_utf8_lossy(&some[..count]));
            }
            assert!(text.contains("\x1b[?1049h") && !echoes(&child_end), "{text}");
            let widest = text.split("\r\n").map(|line| line.replace("\x1b[K", "").len()).max();
            assert!(widest.unwrap() < 60 + 30, "lines are cut at the width: {text}");
            screen.write_all(end).unwrap();
            assert!(top.wait().unwrap().success());
            let count = screen.read(&mut some).unwrap();
            text.push_str(&String::from_utf8_lossy(&some[..count]));
            assert!(text.contains("\x1b[?1049l") && echoes(&child_end), "{text}");
        }
    });
}

#[test]
fn trace_writes_a_file_and_leaves_the_process_as_it_was() {
    beside_fibers("trace_writes_a_file_and_leaves_the_process_as_it_was", |id| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        for _ in 0..2 {
            let told = told(&["trace", id, "--seconds=1", "-o", file.to_str().unwrap()]);
            assert!(told.contains(" events, ") && told.contains("ui.perfetto.dev"), "{told}");
            // The first packet, of the process's track.
            assert_eq!(fs::read(&file).unwrap()[0], 1 << 3 | 2);
        }
        assert_refused(&["trace", id, "-o", "/nowhere/trace"], "/nowhere/trace: ");
        assert_eq!(told(&["ps", id]).matches("'waiter-").count(), 10, "it goes on");
    });
}

#[test]
fn a_process_is_traced_by_one_command_at_a_time() {
    beside_fibers("a_process_is_traced_by_one_command_at_a_time", |id| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        let mut first = Command::new(env!("CARGO_BIN_EXE_daiko"));
        first.args(["trace", id, "--seconds=600", "-o", file.to_str().unwrap()]);
        let mut first = Killed(with_default_signals(&mut first).spawn().unwrap());
        // The file comes once the process is its own.
        while !file.exists() {
            assert!(first.lives());
            thread::yield_now();
        }
        let other = folder.path().join("other");
        let arguments = ["trace", id, "--seconds=1", "-o", other.to_str().unwrap()];
        assert_refused(&arguments, "is traced by process");
        first.kill();
        // Its place is free again, though it could not leave it.
        assert!(told(&arguments).contains(" events, "));
    });
}

#[test]
fn profile_writes_a_file_for_pprof() {
    beside_fibers("profile_writes_a_file_for_pprof", |id| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profile");
        let file = file.to_str().unwrap();
        let told = told(&["profile", id, "--seconds=1", "--period=100", "-o", file]);
        assert!(told.contains(" looks, ") && told.contains("go tool pprof"), "{told}");
        let bytes = fs::read(file).unwrap();
        let contains = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        assert!(contains(b"waiter-9") && contains(b"[Mutex]"));
        assert_refused(&["profile", id, "--period=0"], "--period");
        assert_refused(&["profile", id, "--seconds=1", "-o", "/nowhere/file"], "/nowhere/file: ");
    });
}

#[test]
fn core_writes_a_file_that_ps_reads() {
    beside_fibers("core_writes_a_file_that_ps_reads", |id| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core");
        let path = path.to_str().unwrap();
        let written = told(&["core", id, "-o", path]);
        assert!(written.contains("MiB of memory"), "{written}");
        assert!(told(&["ps", path]).contains("'waiter-9'"));
        assert_refused(&["core", id, "-o", path], "File exists");
    });
}

#[test]
fn bad_subjects_are_refused_in_one_line() {
    assert_refused(&["ps", "2147483647"], "there is no process 2147483647");
    assert_refused(&["ps", "99999999999"], "there is no process");
    assert_refused(&["ps", "/nonexistent"], "No such file");
    assert_refused(&["ps", "/proc/self/status"], "is no core file");
    let other = Killed(Command::new("sleep").arg("60").spawn().unwrap());
    let other = other.0.id().to_string();
    assert_refused(&["ps", &other], "has no runtime of Daiko");
    assert_refused(&["deadlock", &other], "has no runtime of Daiko");
    assert_refused(&["ps", "1", "--state=idle"], "'idle' is no state; give some of");
    assert_refused(&["ps", "--stacks"], "PID");
    assert_refused(&["deadlock", "2147483647"], "there is no process");
    assert_refused(&["core", "2147483647", "-o", "/tmp/x"], "there is no process");
    assert_refused(&["core", "0"], "0");
    assert_refused(&["top", "x"], "x");
    assert_refused(&["top", "2147483647"], "there is no process");
}
