//! `daiko schedule`: the kernel scheduler of `daiko-scx`. `daiko follow` starts it with one choice.

// A feature, as building the scheduler needs more tools than Rust.
#[cfg_attr(not(feature = "scx"), path = "without.rs")]
mod attach;
#[cfg(feature = "scx")]
mod declared;
mod line;
#[cfg(feature = "scx")]
mod members;
#[cfg(any(feature = "scx", test))]
mod processors;
#[cfg(feature = "scx")]
mod told;

use std::{io::Write, process::ExitCode};

use daiko_scx::{Error, Kernel, MISSING, State};

use crate::problem::Problem;
#[cfg(feature = "scx")]
pub(crate) use attach::attached;
#[cfg(not(feature = "scx"))]
pub(crate) use attach::missing;
use attach::pair;
pub(crate) use attach::{start, stop};
pub(crate) use line::ScheduleWord;
pub use line::{ScheduleCommand, ScheduleRequest};

/// Runs a request of `daiko schedule`.
pub(crate) fn run(command: &ScheduleCommand, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    match command {
        ScheduleCommand::Status => {
            status(out)?;
            Ok(ExitCode::SUCCESS)
        }
        // Checked first, as remedies for other errors would not help.
        _ if Kernel::here().state() == State::Missing => Err(Problem::usage(MISSING)),
        ScheduleCommand::Start(request) => start(request, out),
        ScheduleCommand::Pair(only) => pair(only, out),
        ScheduleCommand::Stop => stop(out),
    }
}

/// Prints the active scheduler, and the settings and counters of Daiko's.
pub(crate) fn status(out: &mut dyn Write) -> Result<(), Problem> {
    match Kernel::here().state() {
        State::Missing => writeln!(out, "sched_ext: {MISSING}")?,
        State::Idle => writeln!(out, "sched_ext: no scheduler is attached")?,
        State::Changing(state) => writeln!(out, "sched_ext: {state}")?,
        State::Attached(name) => writeln!(out, "sched_ext: {name} is attached")?,
    }
    attach::status(out)
}

/// Requests that the present state of the system forbids.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::usage(error.to_string())
    }
}
