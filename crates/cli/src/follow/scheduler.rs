//! The scheduler with the feature `scx`: starting, switching, ending, and its counters.

use std::{
    fs::File,
    io::Write,
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use daiko_scx::{Attached, COUNTERS, Counters, Error, Running, Settings};

use super::trace::Trace;
use crate::{
    interrupts::{INTERRUPTED, stop_flag},
    problem::Problem,
};

/// Time between two checks for the end of the scheduler.
const LOOK: Duration = Duration::from_millis(100);
/// Lines between two headings.
const PAGE: u32 = 20;

/// Attaches the scheduler until it is told to end, or changes the attached scheduler.
pub(super) fn start(
    settings: Settings,
    interval: u64,
    out: &mut dyn Write,
) -> Result<ExitCode, Problem> {
    if let Some(attached) = Attached::find()? {
        attached.change(settings)?;
        writeln!(out, "attached already: its policy is now {settings}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = stop_flag()?;
    let running = daiko_scx::start(settings)?;
    writeln!(
        out,
        "attached, policy {settings}; an interrupt or `daiko follow stop` detaches it\n\
         per second:"
    )?;
    let shown = show(&running, Duration::from_secs(interval), &stop, out);
    // The scheduler ends even if standard output has failed.
    running.stop()?;
    shown?;
    writeln!(out, "detached")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line each `interval` until the scheduler ends or is to end.
fn show(
    running: &Running,
    interval: Duration,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<(), Problem> {
    let mut lines = 0;
    let (mut before, mut since) = (running.counters()?, Instant::now());
    while !stop.load(Relaxed) && !running.is_to_stop()? {
        if let Some(ending) = running.ending()? {
            return Err(Problem::System(ending.into_error().to_string()));
        }
        thread::sleep(LOOK.min(interval.saturating_sub(since.elapsed())));
        if since.elapsed() >= interval {
            let now = running.counters()?;
            if lines % PAGE == 0 {
                writeln!(out, "{}", heading())?;
            }
            writeln!(out, "{}", rates(&now.since(&before), since.elapsed(), running.settings()?))?;
            (before, since, lines) = (now, Instant::now(), lines + 1);
        }
    }
    Ok(())
}

fn heading() -> String {
    let columns = COUNTERS.map(|name| format!("{name:>11}"));
    format!("{}  policy", columns.concat())
}

fn rates(counters: &Counters, elapsed: Duration, settings: Settings) -> String {
    let rate = |count: u64| format!("{:>11.1}", count as f64 / elapsed.as_secs_f64());
    let columns: String = counters.each().map(|(_, count)| rate(count)).collect();
    format!("{columns}  {settings}")
}

fn attached() -> Result<Attached, Problem> {
    Attached::find()?.ok_or_else(|| {
        Problem::usage("Daiko's scheduler is not attached; daiko follow start attaches it")
    })
}

/// Tells the process that has started the scheduler to end it.
pub(super) fn stop(out: &mut dyn Write) -> Result<ExitCode, Problem> {
    attached()?.stop().map_err(failed)?;
    writeln!(out, "detached")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the policy and all counters, if the scheduler is attached.
pub(super) fn status(out: &mut dyn Write) -> Result<(), Problem> {
    let Some(attached) = Attached::find()? else { return Ok(()) };
    writeln!(out, "policy: {}", attached.settings()?)?;
    let counters: Vec<_> =
        attached.counters()?.each().map(|(name, count)| format!("{name} {count}")).collect();
    writeln!(out, "counters: {}", counters.join(", "))?;
    Ok(())
}

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

fn failed(error: Error) -> Problem {
    Problem::System(error.to_string())
}
