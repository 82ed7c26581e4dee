//! The scheduler without the feature `scx`: explains how to build it.

use std::{io::Write, path::Path, process::ExitCode};

use daiko_scx::{Kernel, NAME, Settings, State};

use crate::problem::Problem;

const REMEDY: &str = "this daiko was built without the scheduler: install clang-19, libelf-dev, zlib1g-dev and pkg-config, then \
     cargo build --release --package daiko-cli --features scx";

fn missing() -> Result<ExitCode, Problem> {
    Err(Problem::usage(REMEDY))
}

pub(super) fn start(_: Settings, _: u64, _: &mut dyn Write) -> Result<ExitCode, Problem> {
    missing()
}

pub(super) fn stop(_: &mut dyn Write) -> Result<ExitCode, Problem> {
    missing()
}

pub(super) fn record(_: u64, _: &Path, _: &mut dyn Write) -> Result<ExitCode, Problem> {
    missing()
}

/// Reports that the counters exist, but this program cannot read them.
pub(super) fn status(out: &mut dyn Write) -> Result<(), Problem> {
    if Kernel::here().state() == State::Attached(NAME.into()) {
        writeln!(out, "counters: {REMEDY}")?;
    }
    Ok(())
}
