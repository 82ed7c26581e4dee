//! The recording of wake-ups with the feature `scx`.

use std::{
    fs::File,
    io::Write,
    path::Path,
    process::ExitCode,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use daiko_scx::Attached;

use super::trace::Trace;
use crate::{
    interrupts::{INTERRUPTED, stop_flag},
    problem::Problem,
    schedule::attached,
};

/// Time between two checks for the end of the scheduler.
const LOOK: Duration = Duration::from_millis(100);

/// Records all wake-ups of `seconds` into `path`.
pub(super) fn record(seconds: u64, path: &Path, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let attached = attached()?;
    let stop = stop_flag()?;
    let file = File::create(path).map_err(|error| {
        let line =
            format!("cannot write to {}: {error}; name another file with --out", path.display());
        Problem::usage(line)
    })?;
    let not_written =
        |error| Problem::System(format!("cannot write to {}: {error}", path.display()));
    let cpus = daiko_scx::Kernel::here().cpus()?;
    let mut trace = Trace::begin(file, cpus as u16).map_err(not_written)?;
    let recording = attached.record()?;
    let begin = Instant::now();
    let mut is_there = true;
    while is_there && !stop.load(Relaxed) && !trace.has_failed() {
        let left = Duration::from_secs(seconds).saturating_sub(begin.elapsed());
        if left.is_zero() {
            break;
        }
        recording.pass_on(LOOK.min(left), |event| trace.write(event))?;
        is_there = Attached::find()?.is_some();
    }
    let lost = recording.end(|event| trace.write(event))?;
    let wakes = trace.end(lost).map_err(not_written)?;
    writeln!(out, "{wakes} wake-ups, {lost} lost: {}", path.display())?;
    match (is_there, stop.load(Relaxed)) {
        (false, _) => Err(Problem::System("the scheduler ended before the time was over".into())),
        (true, true) => Ok(ExitCode::from(INTERRUPTED)),
        (true, false) => Ok(ExitCode::SUCCESS),
    }
}
