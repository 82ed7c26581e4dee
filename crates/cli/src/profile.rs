//! `daiko profile`: the time that fibers of a process wait and run, in a file for pprof.

use std::{io::Write, path::Path, process::ExitCode, sync::atomic::Ordering, time::Duration};

use daiko_inspect::{Profiled, profile};

use crate::{args::ProfileRequest, interrupts, problem::Problem, subjects};

/// Looks until the time is over, the process has ended, or an interrupt comes.
pub(crate) fn run(request: &ProfileRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let ProfileRequest { process, seconds, period, file } = request;
    let default = format!("daiko-{process}.pb");
    let path = file.as_deref().unwrap_or(Path::new(&default));
    let stop = interrupts::stop_flag()?;
    let goes_on = || !stop.load(Ordering::Relaxed);
    let (seconds, period) = (Duration::from_secs(*seconds), Duration::from_millis(*period));
    let profiled = profile(*process, seconds, period, path, goes_on).map_err(subjects::refused)?;
    let Profiled { looks, samples, has_ended } = profiled;
    writeln!(out, "{}: {looks} looks, {samples} different samples", path.display())?;
    if has_ended {
        writeln!(out, "process {process} has ended")?;
    }
    writeln!(out, "open it by `go tool pprof -http=: {}`", path.display())?;
    Ok(ExitCode::SUCCESS)
}
