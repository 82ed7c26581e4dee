//! Subjects of tests.
//!
//! A subject is the test program once more, which runs one test alone and finds itself to be the
//! subject there. It says "ready" and then waits for the end of its input.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::{env, process};

/// The variable that tells a child that it is the subject of the test that it names.
pub(crate) const SUBJECT: &str = "DAIKO_INSPECT_SUBJECT";

/// A child that is looked at. It ends with this value.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts `program`, a copy of this test program, as the subject of `test`.
    pub(crate) fn start_as(program: &Path, test: &str) -> Self {
        let mut command = Command::new(program);
        command.args(["--exact", test, "--nocapture"]).env(SUBJECT, test);
        Self::start(command)
    }

    pub(crate) fn start(mut command: Command) -> Self {
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = streams.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, output };
        running.await_line("ready");
        running
    }

    fn await_line(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim() != wanted {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the subject has ended");
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the subject.
    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.id() as i32, signal) }, 0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `looks` with a subject that runs `subject`.
pub(crate) fn with_subject(test: &str, subject: fn(), looks: impl FnOnce(&mut Running)) {
    if env::var(SUBJECT).is_ok_and(|subject| subject == test) {
        subject();
        process::exit(0);
    }
    looks(&mut Running::start_as(&env::current_exe().unwrap(), test));
}

/// Says that the subject is as it shall be seen, and waits for the end.
pub(crate) fn ready() {
    daiko::blocking(|| {
        println!("ready");
        let _ = std::io::stdin().read(&mut [0]);
    });
}
