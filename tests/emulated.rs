//! Starting programs of the tests where an emulator runs them (`tools/ports`).
//!
//! Tests of several crates include this file by its path.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

use std::env;
use std::path::Path;
use std::process::Command;

/// The emulator with its options, apart by spaces.
const EMULATOR: &str = "DAIKO_TEST_EMULATOR";

/// Returns true if an emulator runs the tests, and tells that a test is skipped for that reason.
pub(crate) fn is_skipped(reason: &str) -> bool {
    let is_emulated = env::var_os(EMULATOR).is_some();
    if is_emulated {
        println!("skipped: an emulator runs this program, {reason}");
    }
    is_emulated
}

/// Returns the command that runs a program that was built with the tests.
pub(crate) fn program(path: &Path) -> Command {
    let words = env::var(EMULATOR).unwrap_or_default();
    let mut words = words.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(path) };
    let mut command = Command::new(emulator);
    command.args(words).arg(path);
    command
}

/// Returns the command that runs this test binary.
pub(crate) fn own_program() -> Command {
    program(&env::current_exe().expect("the program of the tests"))
}
