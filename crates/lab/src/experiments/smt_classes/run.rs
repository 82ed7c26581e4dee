//! A program of the list, in a process that ends together with this process.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use daiko_sys::process::PidFd;

use super::programs::{Program, ProgramRun};
use crate::kit::{Failure, Fork, OrFailure};

/// A program that has prepared, and runs until it is dropped.
pub(super) struct Running {
    process: Fork,
    end: PidFd,
}

impl Running {
    /// Starts `program`, and waits until it has prepared.
    ///
    /// # Errors
    /// Fails if the program ends before it has prepared, with the reason.
    pub(super) fn start(program: &Program) -> Result<Self, Failure> {
        let refused = format!("cannot start {}", program.name);
        let (mut prepared, prepares) = io::pipe().or_limit(&refused)?;
        let mut process = Fork::start(program.name, || run(program, &prepares))?;
        drop(prepares);
        let end = PidFd::open(process.pid()).or_limit(&refused)?;
        // A program of the lab reports through the pipe; any other program closes the pipe when it
        // starts.
        let says_so = prepared.read(&mut [0]).is_ok_and(|len| len > 0);
        if !says_so && matches!(program.run, ProgramRun::Own { .. }) {
            // The process ends a little later than its end of the pipe.
            process.wait().or_limit(&refused)?;
        }
        let running = Self { process, end };
        running.check_running()?;
        Ok(running)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Checks that the program still runs.
    ///
    /// # Errors
    /// Fails with the reason if the program has ended.
    pub(super) fn check_running(&self) -> Result<(), Failure> {
        if !self.end.has_ended() {
            return Ok(());
        }
        let why = self.process.complaint().map_or("ended early".into(), |error| error.to_string());
        Err(Failure::Broken(format!("the program: {why}")))
    }
}

/// Body of the process.
fn run(program: &Program, prepares: &PipeWriter) -> io::Result<Infallible> {
    match program.run {
        ProgramRun::Own { body, .. } => body(&mut || {
            // Fails if the reader has left, which does not matter.
            let _ = (&mut { prepares }).write(&[0]);
        }),
        ProgramRun::Installed { command, input } => {
            let mut line = Command::new(command[0]);
            line.args(&command[1..]).stdin(File::open(input)?);
            Err(line.stdout(Stdio::null()).stderr(Stdio::null()).exec())
        }
    }
}
