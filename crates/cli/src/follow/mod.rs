//! `daiko follow`: the kernel scheduler of `daiko-scx`, under which woken threads wait for their
//! interrupt.

// A feature, as building the scheduler needs more tools than Rust.
#[cfg_attr(not(feature = "scx"), path = "without.rs")]
mod scheduler;
#[cfg(any(feature = "scx", test))]
mod trace;

use std::{io::Write, process::ExitCode};

use daiko_scx::{Error, Kernel, MISSING, State, Steering};

use crate::{args::FollowCommand, problem::Problem};

/// Runs a request of `daiko follow`.
pub(crate) fn run(command: &FollowCommand, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    match command {
        FollowCommand::Status => status(out),
        // Checked first, as remedies for other errors would not help.
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

/// Requests that the present state of the system forbids.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::usage(error.to_string())
    }
}
