//! `daiko run` from a user's view. The tests of threads are in `dropin.rs`.

#[path = "../../../tests/executable.rs"]
mod executable;
mod installed;
#[path = "../../../tests/signals.rs"]
mod signals;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use signals::with_default_signals;

/// The command `daiko run`, with an environment that knows nothing of it.
fn run(arguments: &[&str]) -> Command {
    run_by(&installed::daiko(), arguments)
}

fn run_by(daiko: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(daiko);
    command.arg("run").args(arguments).current_dir(env::temp_dir());
    for variable in [
        "DAIKO_RUN",
        "DAIKO_RUN_DISPATCH",
        "DAIKO_RUN_FOLLOW",
        "DAIKO_RUN_REPORT_DEADLOCK",
        "DAIKO_WORKERS",
        "GLIBC_TUNABLES",
        "LD_PRELOAD",
    ] {
        command.env_remove(variable);
    }
    with_default_signals(&mut command);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Returns the standard output of a command that succeeds and prints no error.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    assert!(status.success(), "{command:?}: {status}: {}", text(&stderr));
    assert_eq!(text(&stderr), "", "{command:?}");
    text(&stdout)
}

#[track_caller]
fn assert_refused(command: &mut Command, wanted: &[&str]) {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let complaint = text(&stderr);
    assert_eq!(status.code(), Some(2), "{command:?}: {complaint}");
    assert_eq!(text(&stdout), "", "{command:?}");
    assert_eq!(complaint.lines().count(), 1, "{command:?}: {complaint}");
    for word in wanted.iter().chain(&["daiko: "]) {
        assert!(complaint.contains(word), "{command:?}: no '{word}' in: {complaint}");
    }
}

#[test]
fn bad_options_are_refused() {
    assert_refused(&mut run(&[]), &["PROGRAM", "see daiko run --help"]);
    for number in ["0", "-1", "x", "", "5000"] {
        let option = format!("--workers={number}");
        assert_refused(&mut run(&[&option, "true"]), &["--workers"]);
    }
    for option in ["--explain", "--report-deadlock", "--dispatch"] {
        assert_refused(&mut run(&["--native", option, "true"]), &["--native", option]);
    }
    let wanted = ["DAIKO_RUN is 'on'", "native or explain"];
    assert_refused(run(&["true"]).env("DAIKO_RUN", "on"), &wanted);
}

#[test]
fn a_program_that_cannot_be_taken_over_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let text = "#!/bin/sh\necho started\n";
    fs::write(&script, text).expect("a file");
    let name = script.to_str().expect("UTF-8");
    assert_refused(&mut run(&[name]), &[name, "not executable", "chmod +x"]);
    executable::script(text, &script);
    assert_refused(&mut run(&[name]), &[name, "is a script", "/bin/sh"]);
    assert_refused(&mut run(&["no\nprogram"]), &["no\\nprogram is not found"]);
    assert_refused(&mut run(&["/etc"]), &["/etc is no regular file"]);
}

#[test]
fn native_mode_runs_any_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let text = "#!/bin/sh\necho \"$DAIKO_RUN:$LD_PRELOAD:$GLIBC_TUNABLES:$1\"\n";
    executable::script(text, &script);
    let name = script.to_str().expect("UTF-8");
    assert_eq!(printed(&mut run(&["--native", name, "--x"])), "native:::--x\n");
    assert_eq!(printed(run(&[name, "--x"]).env("DAIKO_RUN", "native")), "native:::--x\n");
    assert_refused(&mut run(&["--native", "no-program"]), &["no-program is not found"]);
    // Without libraries, too.
    let alone = folder.path().join("daiko");
    executable::copy(env!("CARGO_BIN_EXE_daiko"), &alone);
    assert_eq!(printed(&mut run_by(&alone, &["--native", name, "1"])), "native:::1\n");
}

#[test]
fn libraries_that_are_missing_are_named_with_both_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    let alone = root.join("bin/daiko");
    fs::create_dir(root.join("bin")).expect("a folder");
    executable::copy(env!("CARGO_BIN_EXE_daiko"), &alone);
    let [bin, lib] = ["bin", "lib/daiko"].map(|name| root.join(name).display().to_string());
    let wanted = ["libdaiko_preload.so", "libdaiko_pthread.so", &bin, &lib, "make install"];
    assert_refused(&mut run_by(&alone, &["true"]), &wanted);
    // One of the two is not enough.
    fs::write(root.join("bin/libdaiko_preload.so"), "").expect("a file");
    assert_refused(&mut run_by(&alone, &["true"]), &wanted);
}

#[test]
fn exit_code_and_signal_are_those_of_the_program() {
    let status = |script| run(&["sh", "-c", script]).status().expect("the command starts");
    assert_eq!(status("exit 7").code(), Some(7));
    assert_eq!(status("kill -9 $$").signal(), Some(9));
    let child = run(&["sh", "-c", "exit $(($$ % 251))"]).spawn().expect("the command starts");
    let expected = child.id() % 251;
    let status = child.wait_with_output().expect("an end").status;
    assert_eq!(status.code(), Some(expected as i32), "the process id stays");
}

/// Prints the first argument of the program and the variables, in a child and in the program.
const SHOW: &str = r#"
    printf '%s|' "$0" "$DAIKO_WORKERS" "$GLIBC_TUNABLES" "$DAIKO_RUN_FOLLOW"
    env | sed -n 's/^LD_PRELOAD=//p'
"#;
const TUNABLES: &str = "glibc.pthread.rseq=0:glibc.rtld.optional_static_tls=2048";

#[test]
fn children_are_taken_over_only_on_request() {
    let library = installed::daiko().with_file_name("../lib/daiko/libdaiko_preload.so");
    let library = library.canonicalize().expect("a path").display().to_string();
    assert_eq!(printed(&mut run(&["sh", "-c", SHOW])), format!("sh||{TUNABLES}||"));
    let shown = printed(&mut run(&["--follow", "--workers", "3", "sh", "-c", SHOW]));
    assert_eq!(shown, format!("sh|3|{TUNABLES}|1|{library}\n"));
    // A variable that an outer `daiko run --follow` has set.
    let shown = printed(run(&["sh", "-c", SHOW]).env("DAIKO_RUN_FOLLOW", "1"));
    assert_eq!(shown, format!("sh||{TUNABLES}||"));
}

#[test]
fn options_of_the_engine_are_passed_by_variables() {
    const SHOW: &str = "echo \"$DAIKO_RUN_REPORT_DEADLOCK|$DAIKO_RUN_DISPATCH\"";
    assert_eq!(printed(&mut run(&["sh", "-c", SHOW])), "|\n");
    let shown = printed(&mut run(&["--report-deadlock", "--dispatch", "sh", "-c", SHOW]));
    assert_eq!(shown, "1|1\n");
}

#[test]
fn settings_of_the_user_stay() {
    let shown = printed(
        run(&["sh", "-c", SHOW])
            .env("LD_PRELOAD", "libm.so.6:libdl.so.2")
            .env("GLIBC_TUNABLES", "glibc.pthread.rseq=1")
            .env("DAIKO_WORKERS", "2"),
    );
    let tunables = "glibc.pthread.rseq=1:glibc.rtld.optional_static_tls=2048";
    assert_eq!(shown, format!("sh|2|{tunables}||libm.so.6:libdl.so.2\n"));
}
