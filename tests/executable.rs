//! Executable files that a test makes.
//!
//! Tests of several crates include this file by its path.
//!
//! The kernel refuses to run a file that is open for writing. A test that writes one itself cannot
//! rule that out: a child that another test forks meanwhile holds its open files until it runs
//! another program. So the files are written by a process of their own.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies the `program` to the file `copy`.
#[track_caller]
pub(crate) fn copy(program: impl AsRef<Path>, copy: &Path) {
    let status = Command::new("cp").arg(program.as_ref()).arg(copy).status();
    assert!(status.expect("cp starts").success(), "{}", copy.display());
}

/// Makes the file `script` of this text. The first line of the text names the interpreter.
#[track_caller]
pub(crate) fn script(text: &str, script: &Path) {
    let mut writer = Command::new("sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(script)
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh starts");
    writer.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("a pipe");
    assert!(writer.wait().expect("an end").success(), "{}", script.display());
}
