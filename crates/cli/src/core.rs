//! `daiko core`: a core file of a process that goes on, with the stacks of its fibers.

use std::{io::Write, path::Path, process::ExitCode};

use daiko_inspect::{Written, write_core};

use crate::{args::CoreRequest, problem::Problem, subjects};

/// Writes the core file.
pub(crate) fn run(request: &CoreRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let CoreRequest { process, file } = request;
    let default = format!("core.{process}");
    let path = file.as_deref().unwrap_or(Path::new(&default));
    let Written { bytes, threads } = write_core(*process, path).map_err(subjects::refused)?;
    let (megabytes, threads) =
        (bytes >> 20, if threads == 1 { "1 thread" } else { &format!("{threads} threads") });
    writeln!(out, "{}: {megabytes} MiB of memory, {threads}", path.display())?;
    Ok(ExitCode::SUCCESS)
}
