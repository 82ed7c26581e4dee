//! Runs the command on small suites of shell scripts, which lie in `programs`.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const OPEN_POSIX: &str = "\
place/1-1 PASS
results/1-1 PASS
results/1-2 FAIL
results/1-3 UNRESOLVED
results/1-4 UNSUPPORTED
results/1-5 UNTESTED
results/1-6 EXITED-3
results/1-7 SIGNALED-11
under/1-1 PASS
under/1-2 PASS
";

fn programs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Returns the command for the suites with these names.
fn command(suites: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daiko-conformance"));
    for (option, folder) in suites {
        command.arg(option).arg(programs(folder));
    }
    command
}

fn open_posix() -> Command {
    command(&[("--ltp", "open_posix")])
}

/// Runs one round under the command, with a file of expected differences.
fn compare(mut command: Command, rows: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let expected = folder.path().join("expected");
    fs::write(&expected, rows).unwrap();
    command.arg("--expected").arg(expected).args(["--rounds", "1", "--"]).arg(programs("under"));
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn assert_refused(output: &Output, message: &str) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.starts_with("daiko-conformance: ") && error.contains(message), "{error}");
    assert_eq!(output.stdout, b"");
}

#[test]
fn native_verdicts_are_listed_by_test() {
    let suites = [("--glibc", "glibc"), ("--ltp", "open_posix")];
    let output = command(&suites).args(["--rounds", "1", "--jobs", "4"]).output().unwrap();
    let glibc = "nptl/tst-pass PASS\nplace/1-1";
    let list = OPEN_POSIX.replace("place/1-1", glibc);
    let list = list.replace("results/1-1", "pthread/tst-unsupported UNSUPPORTED\nresults/1-1");
    assert_eq!(text(&output.stdout), list);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn unexpected_differences_fail() {
    let output = compare(open_posix(), "");
    assert_eq!(
        text(&output.stdout),
        "\
unexpected: under/1-1, 1 worker: FAIL in 1 of 1 rounds; the last line is: is the last
unexpected: under/1-1, 2 workers: FAIL in 1 of 1 rounds; the last line is: is the last
unexpected: under/1-2, 2 workers: SIGNALED-6 in 1 of 1 rounds
native: 4 PASS, 1 FAIL, 1 UNRESOLVED, 1 UNSUPPORTED, 1 UNTESTED, 1 SIGNALED-11, 1 EXITED-3
1 worker: 3 PASS, 2 FAIL, 1 UNRESOLVED, 1 UNSUPPORTED, 1 UNTESTED, 1 SIGNALED-11, 1 EXITED-3
2 workers: 2 PASS, 2 FAIL, 1 UNRESOLVED, 1 UNSUPPORTED, 1 UNTESTED, 1 SIGNALED-6, 1 SIGNALED-11, 1 EXITED-3
0 expected differences, 3 unexpected, 0 stale rows, 0 tests not compared
"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn expected_differences_succeed() {
    let output = compare(open_posix(), "under/1-1 * FAIL why\nunder/1-2 2 SIGNALED-6 aborts\n");
    let report = text(&output.stdout);
    assert!(report.starts_with("expected: under/1-1, 1 worker: FAIL in 1 of 1 rounds (why)\n"));
    assert!(
        report.ends_with(
            "3 expected differences, 0 unexpected, 0 stale rows, 0 tests not compared\n"
        )
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn stale_rows_of_the_given_suites_fail() {
    let mut command = command(&[("--glibc", "glibc")]);
    command.args(["--only", "nptl/"]);
    let rows =
        "under/1-1 * FAIL why\nnptl/tst-pass 1 HUNG why\npthread/tst-unsupported * FAIL why\n";
    let output = compare(command, rows);
    let report = text(&output.stdout);
    let stale: Vec<_> = report.lines().filter(|line| line.starts_with("stale: ")).collect();
    let [line] = stale[..] else { panic!("{report}") };
    assert!(line.ends_with(
        "expected:2: nptl/tst-pass is not HUNG with 1 worker; delete the row or limit it"
    ));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn native_verdicts_are_taken_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    // A test that is said to fail is not compared.
    fs::write(&list, OPEN_POSIX.replace("under/1-1 PASS", "under/1-1 FAIL")).unwrap();
    let mut command = open_posix();
    command.arg("--native").arg(&list).args(["--workers", "1"]);
    let output = compare(command, "");
    assert!(text(&output.stdout).ends_with("0 unexpected, 0 stale rows, 0 tests not compared\n"));
    fs::write(&list, "under/1-1 PASS\n").unwrap();
    let mut command = open_posix();
    command.arg("--native").arg(&list);
    assert_refused(&compare(command, ""), "list has no verdict of place/1-1; write it anew");
}

/// A child that is left alive writes a word half a minute later.
#[test]
fn all_processes_of_a_test_are_killed_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let mut fifo = make_fifo(&path);
    let mut command = command(&[("--glibc", "endless")]);
    let output = command.args(["--rounds", "1", "--limit", "5"]).env("FIFO", &path).output();
    // At the end of the file, all writers are dead.
    let mut words = String::new();
    fifo.read_to_string(&mut words).unwrap();
    assert_eq!(words, "tst-hangs\ntst-leaves\n");
    let list = output.unwrap().stdout;
    assert_eq!(text(&list), "pthread/tst-hangs HUNG\npthread/tst-leaves PASS\n");
}

/// Makes a FIFO and opens it for reading, which waits for data but not for the first writer.
fn make_fifo(path: &Path) -> File {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name is a live string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let fifo = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    // SAFETY: takes plain integers; the descriptor is open.
    assert_eq!(unsafe { libc::fcntl(fifo.as_raw_fd(), libc::F_SETFL, 0) }, 0);
    fifo
}

#[test]
fn bad_input_is_refused_with_one_line_and_a_remedy() {
    let run = |command: &mut Command| command.output().unwrap();
    let missing = ["--ltp", "/missing"];
    assert_refused(&run(command(&[]).args(missing)), "cannot read /missing: No such file");
    assert_refused(&run(&mut command(&[("--ltp", "glibc")])), "holds no program INTERFACE/N-M");
    assert_refused(&run(open_posix().args(["--only", "other/"])), "begins with other/");
    assert_refused(&run(open_posix().args(["--", "/missing"])), "cannot start /missing");
    assert_refused(
        &run(open_posix().args(["--", "false"])),
        "false /bin/true gives FAIL with 1 worker",
    );
    assert_refused(
        &run(open_posix().args(["--expected", "/missing", "--", "env"])),
        "name the file of expected differences",
    );
    assert_refused(
        &compare(open_posix(), "# comment\nunder/1-1 * FAIL\n"),
        "expected:2: the reason is missing; write TEST CONFIGURATION VERDICT REASON",
    );
}

#[test]
fn a_call_without_suites_describes_the_folders() {
    let output = command(&[]).output().unwrap();
    assert_refused(&output, "no suite is given: name a folder of built test programs");
    let error = text(&output.stderr);
    assert!(error.contains("DIR/pthread_create/1-1") && error.contains("DIR/nptl/tst-"), "{error}");
}
