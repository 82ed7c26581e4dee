//! The signal actions of programs under test.
//!
//! Tests of several crates include this file by its path.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{mem, ptr};

/// Starts the program with the default action of every signal and with none blocked.
///
/// A test inherits other actions from the shell that runs it: `nohup` ignores SIGHUP, and a shell
/// without job control ignores SIGINT and SIGQUIT in its background commands.
pub(crate) fn with_default_signals(command: &mut Command) -> &mut Command {
    // SAFETY: the closure calls async-signal-safe functions on plain integers and a local only.
    unsafe {
        command.pre_exec(|| {
            for signal in 1..=libc::SIGRTMAX() {
                // Fails for SIGKILL, SIGSTOP and the signals of libc, which have no other action.
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut none = mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
            Ok(())
        })
    }
}
