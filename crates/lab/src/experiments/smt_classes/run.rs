//! A program of the list, in a process that ends with this.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use daiko_sys::process::PidFd;

use super::programs::{Program, Run};
use crate::kit::{Failure, Fork, OrFailure};

/// A program that has prepared, and goes on until it is dropped.
pub(super) struct Running {
    process: Fork,
    end: PidFd,
}

impl Running {
    /// # Errors
    /// If it ends before it has prepared, with the reason.
    pub(super) fn start(program: &Program) -> Result<Self, Failure> {
        let refused = format!("cannot start {}", program.name);
        let (mut prepared, prepares) = io::pipe().or_limit(&refused)?;
        let mut process = Fork::start(program.name, || run(program, &prepares))?;
        drop(prepares);
        let end = PidFd::open(process.pid()).or_limit(&refused)?;
        // One of the lab says so; another program has closed the pipe once it runs.
        let says_so = prepared.read(&mut [0]).is_ok_and(|len| len > 0);
        if !says_so && matches!(program.run, Run::Own { .. }) {
            // Its end is a while behind that of the pipe.
            process.wait().or_limit(&refused)?;
        }
        let running = Self { process, end };
        running.check_running()?;
        Ok(running)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// # Errors
    /// If it has ended, why.
    pub(super) fn check_running(&self) -> Result<(), Failure> {
        if !self.end.has_ended() {
            return Ok(());
        }
        let why = self.process.complaint().map_or("ended early".into(), |error| error.to_string());
        Err(Failure::Broken(format!("the program: {why}")))
    }
}

/// The process's whole life.
fn run(program: &Program, prepares: &PipeWriter) -> io::Result<Infallible> {
    match program.run {
        Run::Own { body, .. } => body(&mut || {
            // It fails if nobody waits any more.
            let _ = (&mut { prepares }).write(&[0]);
        }),
        Run::Installed { command, input } => {
            let mut line = Command::new(command[0]);
            line.args(&command[1..]).stdin(File::open(input)?);
            Err(line.stdout(Stdio::null()).stderr(Stdio::null()).exec())
        }
    }
}
