//! `daiko follow`: the scheduler of `daiko schedule`, under which woken threads wait for their
//! interrupt, compared with the policy of kernels.

// A feature, as building the scheduler needs more tools than Rust.
#[cfg_attr(not(feature = "scx"), path = "without.rs")]
mod recording;
#[cfg(any(feature = "scx", test))]
mod trace;

use std::{io::Write, process::ExitCode};

use daiko_scx::{Kernel, MISSING, State, Steering};

use crate::{
    args::FollowCommand,
    problem::Problem,
    schedule::{self, ScheduleRequest},
};

/// Runs a request of `daiko follow`.
pub(crate) fn run(command: &FollowCommand, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    match command {
        FollowCommand::Status => {
            writeln!(out, "Receive Flow Steering: {}", Steering::here())?;
            schedule::status(out)?;
            Ok(ExitCode::SUCCESS)
        }
        // Checked first, as remedies for other errors would not help.
        _ if Kernel::here().state() == State::Missing => Err(Problem::usage(MISSING)),
        FollowCommand::Start { settings, interval } => {
            schedule::start(&ScheduleRequest::plain(*settings, *interval), out)
        }
        FollowCommand::Stop => schedule::stop(out),
        FollowCommand::Record { seconds, file } => recording::record(*seconds, file, out),
    }
}
