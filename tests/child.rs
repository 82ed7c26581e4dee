//! Runs a part of a test in a process of its own, which may die or change its limits.
//!
//! Tests of several crates include this file by its path.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

#[path = "emulated.rs"]
pub(crate) mod emulated;
#[path = "signals.rs"]
mod signals;

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio, exit};

pub(crate) use self::signals::with_default_signals;

const CHILD: &str = "DAIKO_TEST_CHILD";

/// Runs `body` in a child process and returns its output. The child never returns from here.
///
/// The child is this test binary, restricted to the test of this `name`, which must exist: a child
/// that runs no test succeeds.
#[track_caller]
pub(crate) fn in_child(name: &str, body: fn()) -> Output {
    if is_child() {
        body();
        exit(0);
    }
    let output = command(name).output().unwrap();
    assert!(!stdout(&output).contains("running 0 tests"), "there is no test {name}");
    output
}

/// [`in_child`] for a child that must succeed. Prints its skip messages.
#[track_caller]
pub(crate) fn in_child_well(name: &str, body: fn()) {
    let output = in_child(name, body);
    for line in stdout(&output).lines().filter(|line| line.contains("skipped: ")) {
        println!("{line}");
    }
    assert!(output.status.success(), "{:?}\n{}{}", output.status, stdout(&output), stderr(&output));
}

/// The command of [`in_child`].
pub(crate) fn command(name: &str) -> Command {
    command_of(&env::current_exe().unwrap(), name)
}

/// [`command`] for a copy of this test binary.
pub(crate) fn command_of(binary: &Path, name: &str) -> Command {
    let mut command = emulated::program(binary);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    with_default_signals(&mut command);
    command
}

/// Returns true in such a child.
pub(crate) fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// A child that does not outlive its test.
pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    /// Kills the child by SIGKILL, unless it has ended already. It is dead when this returns.
    pub(crate) fn kill(self) {}

    /// Returns true unless the child has ended by itself.
    pub(crate) fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Waits for its end and asserts that it succeeded.
    #[track_caller]
    pub(crate) fn ends_well(&mut self) {
        assert!(self.0.wait().unwrap().success());
    }

    /// Stops it by SIGSTOP. It has stopped when this returns.
    pub(crate) fn stop(&self) {
        self.send(libc::SIGSTOP);
        // SAFETY: zero is a valid `siginfo_t`, and the result goes to a live local.
        unsafe {
            let mut info = std::mem::zeroed();
            let stops = libc::WSTOPPED | libc::WNOWAIT;
            assert_eq!(libc::waitid(libc::P_PID, self.0.id(), &mut info, stops), 0);
        }
    }

    /// Continues the stopped child.
    pub(crate) fn go_on(&self) {
        self.send(libc::SIGCONT);
    }

    pub(crate) fn send(&self, signal: i32) {
        // SAFETY: takes plain integers; the child was not waited for, so its id is not reused.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child that a test looks at, which does not outlive it. It waits in [`ready`].
pub(crate) struct ReadyChild {
    pub(crate) child: Killed,
    output: BufReader<ChildStdout>,
}

impl ReadyChild {
    /// Runs `body` in the child of the test of this `name`, and returns the child to the test.
    #[track_caller]
    pub(crate) fn of(name: &str, body: impl FnOnce()) -> Self {
        Self::in_copy(&env::current_exe().unwrap(), name, body)
    }

    /// [`of`](Self::of) for a copy of this test binary.
    #[track_caller]
    pub(crate) fn in_copy(binary: &Path, name: &str, body: impl FnOnce()) -> Self {
        if is_child() {
            body();
            exit(0);
        }
        Self::start(command_of(binary, name))
    }

    /// Starts the child, and waits until it is ready.
    #[track_caller]
    pub(crate) fn start(mut command: Command) -> Self {
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = streams.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut ready = ReadyChild { child: Killed(child), output };
        ready.await_line("ready");
        ready
    }

    /// Waits until the child says this.
    #[track_caller]
    pub(crate) fn await_line(&mut self, wanted: &str) {
        let mut line = String::new();
        // The test runner may have begun the line with the name of the test.
        while !line.trim_end().ends_with(wanted) {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the child has ended");
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }
}

/// Says that the [`ReadyChild`] is ready to be looked at, and waits for its input, or the end of
/// that.
pub(crate) fn ready() {
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
}

/// The child's standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The child's standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
