//! `daiko run --report-deadlock`: programs that wait for good, and programs that a test lets go on.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::signals::with_default_signals;
use super::{LIMIT, build, ends_within, kill_group, run};

/// The programs, all in `tests/dropin/deadlock`.
pub(crate) const PROGRAMS: &[&str] =
    &["handler_posts", "itself", "joins", "objects", "opposite", "reads", "sigwaits", "sleeps"];

/// The looks of the monitor, those before the wait included, that a program outlasts which goes on.
/// A report takes three looks at a standstill.
const LOOKS: u32 = 10;

fn start(program: &Path, workers: u32, log: &Path) -> Child {
    let words = run(workers);
    let output = fs::File::create(log).expect("a log");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--report-deadlock", "--explain"]).arg(program);
    command.process_group(0).stdin(Stdio::piped());
    command.stdout(output.try_clone().expect("a descriptor")).stderr(output);
    with_default_signals(&mut command).spawn().expect("the program starts")
}

/// Waits until the log has a whole line with this text. Returns false after the limit.
fn tells(log: &Path, text: &str) -> bool {
    let end = Instant::now() + LIMIT;
    let has = || fs::read_to_string(log).is_ok_and(|log| log.contains(text) && log.ends_with('\n'));
    while !has() && Instant::now() < end {
        thread::sleep(Duration::from_millis(2));
    }
    has()
}

/// Runs a program that waits for good, and returns its report.
#[track_caller]
fn reported(program: &str, workers: u32) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let built = build("deadlock", program).inspect_err(|missing| println!("skipped: {missing}"));
    let mut child = start(&built.ok()?, workers, &log);
    let is_told = tells(&log, "daiko run: deadlock: ");
    let has_ended = ends_within(&mut child, Duration::ZERO);
    let status = kill_group(&mut child);
    let report = fs::read_to_string(&log).expect("a log");
    assert!(is_told && !has_ended, "{program}: {status}; it printed:\n{report}");
    Some(report)
}

/// Asserts that the words come in a line of the report, in this order.
#[track_caller]
fn assert_line(report: &str, words: &[&str]) {
    let has = |line: &str| {
        let find = |rest: Option<usize>, word: &&str| {
            let rest = rest?;
            Some(rest + line[rest..].find(word)? + word.len())
        };
        words.iter().fold(Some(0), find).is_some()
    };
    assert!(report.lines().any(has), "no line with {words:?}:\n{report}");
}

/// Runs a program that waits until its input ends, and a signal comes if it `has_signal`. Asserts
/// that it ends well, and that nothing is reported though the monitor has looked `wanted` times.
#[track_caller]
fn goes_on(program: &str, workers: u32, has_signal: bool, wanted: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let built = match build("deadlock", program) {
        Ok(built) => built,
        Err(missing) => return println!("skipped: {missing}"),
    };
    let mut pause = Duration::from_millis(500);
    loop {
        let mut child = start(&built, workers, &log);
        let waits = tells(&log, "waits");
        thread::sleep(pause);
        drop(child.stdin.take());
        if has_signal {
            // SAFETY: takes plain integers; the program was not waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
        }
        let has_ended = ends_within(&mut child, LIMIT);
        let status = kill_group(&mut child);
        let output = fs::read_to_string(&log).expect("a log");
        assert!(waits && has_ended && status.success(), "{program}: {status}:\n{output}");
        assert!(!output.contains("deadlock: "), "{program}:\n{output}");
        let looks = output.rsplit_once(" looks for deadlocks").expect("the counters").0;
        let looks = looks.rsplit(' ').next().expect("a number").parse::<u32>();
        if looks.expect("a number") >= wanted {
            return;
        }
        pause *= 2;
        assert!(pause < LIMIT, "{program}: too few looks:\n{output}");
    }
}

/// The script for gdb, `crates/rt/gdb/daiko.py`.
#[test]
fn a_backtrace_of_gdb_goes_on_where_the_thread_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let built = match build("deadlock", "itself") {
        Ok(built) => built,
        Err(missing) => return println!("skipped: {missing}"),
    };
    let mut child = start(&built, 1, &log);
    let is_told = tells(&log, "daiko run: deadlock: ");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../rt/gdb/daiko.py");
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-p", &child.id().to_string(), "-ex"]);
    command.args([&format!("source {script}"), "-ex", "thread apply all backtrace"]);
    let output = command.output();
    kill_group(&mut child);
    assert!(is_told, "no report");
    let Ok(output) = output else { return println!("skipped: gdb is not installed") };
    let [text, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    if ["ptrace", "Could not attach", "python"].iter().any(|word| errors.contains(word)) {
        return println!("skipped: gdb may not trace processes here, or has no Python: {errors}");
    }
    let waits = text.split("\nThread ").find(|thread| thread.contains("daiko_pthread_mutex_lock"));
    assert!(waits.is_some_and(|thread| thread.contains(" run ()")), "{text}{errors}");
}

macro_rules! with_workers {
    ($($module:ident = $workers:literal;)*) => {$(
        mod $module {
            use super::*;

            #[test]
            fn mutexes_in_opposite_order_are_reported_with_both_owners() {
                let Some(report) = reported("opposite", $workers) else { return };
                assert_line(&report, &["deadlock: 3 threads wait"]);
                assert_line(&report, &["    thread", "\"up\" waits for the mutex at 0x", "held by", "\"down\""]);
                assert_line(&report, &["    thread", "\"down\" waits for the mutex at 0x", "held by", "\"up\""]);
                assert_line(&report, &["  thread", "\"opposite\" waits for the end of", "\"up\""]);
            }

            #[test]
            fn a_circle_of_joins_and_a_mutex_is_reported_though_a_signal_is_handled() {
                let Some(report) = reported("joins", $workers) else { return };
                assert_line(&report, &["deadlock: 4 threads wait"]);
                assert_line(&report, &["    thread", "\"first\" waits for the end of", "\"second\""]);
                assert_line(&report, &["    thread", "\"second\" waits for the end of", "\"third\""]);
                assert_line(&report, &["    thread", "\"third\" waits for the mutex", "held by", "\"first\""]);
            }

            #[test]
            fn a_thread_that_waits_for_itself_is_reported() {
                let Some(report) = reported("itself", $workers) else { return };
                assert_line(&report, &["    thread", "\"itself\" waits for the mutex", "holds itself"]);
            }

            #[test]
            fn each_kind_of_object_has_its_name() {
                let Some(report) = reported("objects", $workers) else { return };
                assert_line(&report, &["deadlock: 10 threads wait"]);
                for object in ["condition variable", "barrier", "pthread_once_t", "futex"] {
                    assert_line(&report, &["waits for the", object, "at 0x"]);
                }
                assert_line(&report, &["waits for the mutex at 0x", "which has ended"]);
                assert_line(&report, &["waits for the read-write lock", "held by thread"]);
                assert_line(&report, &["and 3 more wait for the semaphore at 0x"]);
            }

            #[test]
            fn a_thread_that_reads_is_not_lost() {
                // The monitor rests while an agent waits for a descriptor.
                goes_on("reads", $workers, false, 2);
            }

            #[test]
            fn a_thread_that_sleeps_is_not_lost() {
                goes_on("sleeps", $workers, false, LOOKS);
            }

            #[test]
            fn a_thread_that_waits_for_a_signal_is_not_lost() {
                goes_on("sigwaits", $workers, true, LOOKS);
            }

            #[test]
            fn a_thread_that_a_handler_wakes_is_not_lost() {
                goes_on("handler_posts", $workers, true, LOOKS);
            }
        }
    )*};
}

with_workers! {
    one_worker = 1;
    two_workers = 2;
}

/// The threads of an unmodified program are fibers to `daiko ps`, with the kernel's ids.
#[test]
fn threads_are_seen_from_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let built = match build("deadlock", "opposite") {
        Ok(built) => built,
        Err(missing) => return println!("skipped: {missing}"),
    };
    let mut child = start(&built, 2, &log);
    let is_told = tells(&log, "daiko run: deadlock: ");
    let ps = Command::new(env!("CARGO_BIN_EXE_daiko"))
        .args(["ps", &child.id().to_string(), "--stacks=unique"])
        .output()
        .expect("the command starts");
    kill_group(&mut child);
    assert!(is_told);
    let text = String::from_utf8_lossy(&ps.stdout);
    assert!(
        text.contains("2 fibers waiting: Mutex"),
        "{text}{}",
        String::from_utf8_lossy(&ps.stderr)
    );
    // The program has no lines, but names of functions.
    assert!(text.contains("(thread ") && text.contains("\n    run\n"), "{text}");
    assert!(text.contains("start_thread"), "the stack is whole: {text}");
}
