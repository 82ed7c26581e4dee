//! The commands of `daiko pair`: their environment and their ends.

#[path = "../../../tests/executable.rs"]
mod executable;
#[path = "../../../tests/seccomp.rs"]
mod seccomp;
#[path = "../../../tests/signals.rs"]
mod signals;

use std::{
    os::unix::process::CommandExt,
    process::{Command, Output},
};

use signals::with_default_signals;
use tempfile::TempDir;

/// `daiko pair` with a folder for its journal.
fn pair(arguments: &[&str]) -> (TempDir, Command) {
    let runtime = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_daiko"));
    command.arg("pair").args(arguments).env("XDG_RUNTIME_DIR", runtime.path());
    with_default_signals(&mut command);
    (runtime, command)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the command starts")
}

#[test]
fn a_command_ignores_no_signal_that_daiko_does() {
    let (_runtime, mut command) = pair(&["--", "grep", "SigIgn", "/proc/self/status"]);
    let told = text(&output(&mut command).stdout);
    let ignored = told.trim_end().strip_prefix("SigIgn:\t").expect("a line");
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    assert_eq!(ignored & 1 << (libc::SIGPIPE - 1), 0, "{told}");
}

#[test]
fn ends_of_commands_are_seen_though_ends_of_children_are_ignored() {
    let (_runtime, mut command) = pair(&["--", "sh", "-c", "exit 7"]);
    // SAFETY: the call takes plain integers and is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    assert_eq!(output(&mut command).status.code(), Some(7));
}

#[test]
fn a_kernel_without_handles_on_processes_will_do() {
    let (_runtime, mut command) = pair(&["--", "sh", "-c", "kill -INT $PPID; while :; do :; done"]);
    // SAFETY: the filter consists of locals; the calls are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            seccomp::forbid(libc::SYS_pidfd_open, libc::ENOSYS);
            Ok(())
        });
    }
    let output = output(&mut command);
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM), "{}", text(&output.stderr));
}

#[test]
fn a_command_that_cannot_run_needs_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    executable::script("#!/no/such/interpreter\n", &script);
    let (_runtime, mut command) = pair(&["--", script.to_str().unwrap(), ":::", "true"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(command.stderr(writer).status().unwrap().code(), Some(126));
}
