//! `daiko trace`: the events of a process's workers, in a file for Perfetto.

use std::{io::Write, path::Path, process::ExitCode, sync::atomic::Ordering, time::Duration};

use daiko_inspect::{Traced, trace};

use crate::{args::TraceRequest, interrupts, problem::Problem, subjects};

/// Records until the time is over, the process has ended, or an interrupt comes.
pub(crate) fn run(request: &TraceRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let TraceRequest { process, seconds, file } = request;
    let default = format!("daiko-{process}.pftrace");
    let path = file.as_deref().unwrap_or(Path::new(&default));
    let stop = interrupts::stop_flag()?;
    let goes_on = || !stop.load(Ordering::Relaxed);
    let traced =
        trace(*process, Duration::from_secs(*seconds), path, goes_on).map_err(subjects::refused)?;
    let Traced { events, switches, switches_counted, gaps, .. } = traced;
    writeln!(out, "{}: {events} events, {switches} switches", path.display())?;
    if gaps > 0 {
        writeln!(
            out,
            "{gaps} gaps: of {switches_counted} switches the rest was faster than this command reads"
        )?;
    }
    if traced.refused > 0 {
        writeln!(out, "{} workers had no memory to record their events", traced.refused)?;
    }
    if traced.has_ended {
        writeln!(out, "process {process} has ended")?;
    }
    if !traced.is_ticking_evenly {
        writeln!(out, "times may be wrong: the processor's time stamp counter has no fixed rate")?;
    }
    writeln!(out, "open it at https://ui.perfetto.dev")?;
    Ok(ExitCode::SUCCESS)
}
