//! The scheduler without the feature `scx`: explains how to build it.

use std::{io::Write, process::ExitCode};

use daiko_scx::{Kernel, NAME, State};

use super::ScheduleRequest;
use crate::problem::Problem;

const REMEDY: &str = "this daiko was built without the scheduler: install clang-19, libelf-dev, zlib1g-dev and pkg-config, then \
     cargo build --release --package daiko-cli --features scx";

pub(crate) fn start(_: &ScheduleRequest, _: &mut dyn Write) -> Result<ExitCode, Problem> {
    Err(missing())
}

pub(crate) fn pair(_: &[u32], _: &mut dyn Write) -> Result<ExitCode, Problem> {
    Err(missing())
}

pub(crate) fn stop(_: &mut dyn Write) -> Result<ExitCode, Problem> {
    Err(missing())
}

/// The reason why nothing can be done.
pub(crate) fn missing() -> Problem {
    Problem::usage(REMEDY)
}

/// Reports that the counters exist, but this program cannot read them.
pub(super) fn status(out: &mut dyn Write) -> Result<(), Problem> {
    if Kernel::here().state() == State::Attached(NAME.into()) {
        writeln!(out, "counters: {REMEDY}")?;
    }
    Ok(())
}
