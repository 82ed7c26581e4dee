//! The recording of wake-ups without the feature `scx`, which it needs.

use std::{io::Write, path::Path, process::ExitCode};

use crate::{problem::Problem, schedule::missing};

pub(super) fn record(_: u64, _: &Path, _: &mut dyn Write) -> Result<ExitCode, Problem> {
    Err(missing())
}
