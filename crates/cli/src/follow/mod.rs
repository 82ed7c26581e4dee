//! `daiko follow`: the kernel's scheduler of `daiko-scx`, under which wake-ups wait for their interrupt.

// Building it needs more than Rust, so that it is asked for by a feature.
#[cfg_attr(not(feature = "scx"), path = "without.rs")]
mod scheduler;
#[cfg(any(feature = "scx", test))]
mod trace;

use std::{io::Write, process::ExitCode};

use daiko_scx::{Error, Kernel, MISSING, State, Steering};

use crate::{args::FollowCommand, problem::Problem};

/// Does what the command line says.
pub(crate) fn run(command: &FollowCommand, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    match command {
        FollowCommand::Status => status(out),
        // Before anything else is asked for, which would not help.
        _ if Kernel::here().state() == State::Missing => Err(Problem::usage(MISSING)),
        FollowCommand::Start { settings, interval } => scheduler::start(*settings, *interval, out),
        FollowCommand::Stop => scheduler::stop(out),
        FollowCommand::Record { seconds, file } => scheduler::record(*seconds, file, out),
    }
}

fn status(out: &mut dyn Write) -> Result<ExitCode, Problem> {
    match Kernel::here().state() {
        State::Missing => writeln!(out, "sched_ext: {MISSING}")?,
        State::Idle => writeln!(out, "sched_ext: no scheduler is attached")?,
        State::Changing(state) => writeln!(out, "sched_ext: {state}")?,
        State::Attached(name) => writeln!(out, "sched_ext: {name} is attached")?,
    }
    writeln!(out, "Receive Flow Steering: {}", Steering::here())?;
    scheduler::status(out)?;
    Ok(ExitCode::SUCCESS)
}

/// What cannot be carried out, as things are.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::usage(error.to_string())
    }
}
