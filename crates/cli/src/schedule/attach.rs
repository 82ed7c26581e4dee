//! The scheduler with the feature `scx`: starting, changing, ending, and its counters.

use std::{
    io::Write,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use daiko_scx::{Attached, COUNTERS, Counters, Ending, Error, Running, Settings, Switch};
use daiko_sys::topology::Topology;

pub(crate) use super::told::pair;
use super::{
    ScheduleRequest,
    declared::{Declared, Supply},
    members::Members,
    processors,
};
use crate::{interrupts::stop_flag, pair::process_of, problem::Problem};

/// Time between two checks for the end of the scheduler.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Lines between two headings.
const PAGE: u32 = 20;

/// The way in which an attached scheduler ends.
enum End {
    Asked,
    /// A restart, with the settings at the end.
    Restart(Ending, Settings),
}

/// Attaches the scheduler until it is told to end, or changes the attached scheduler.
pub(crate) fn start(request: &ScheduleRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    request.only.iter().try_for_each(|pid| process_of(*pid).map(drop))?;
    let mut declared = Declared::find(&request.classes)?;
    if let Some(attached) = Attached::find()? {
        return change(&attached, request, &mut declared, out);
    }
    let stop = stop_flag()?;
    let switch = if request.only.is_empty() { Switch::All } else { Switch::Partial };
    let running = attach(request.settings, switch)?;
    let members = match request.only.as_slice() {
        [] => None,
        pids => Some(Members::give(pids)?),
    };
    let scope = if members.is_some() { ", for some processes" } else { "" };
    writeln!(
        out,
        "attached{scope}, policy {}; an interrupt or `daiko schedule stop` detaches it\n\
         {}\n\
         per second:",
        request.settings,
        limits(running.honours_weights())
    )?;
    keep(running, switch, Duration::from_secs(request.interval), &mut declared, &stop, out)?;
    writeln!(out, "detached")?;
    Ok(ExitCode::SUCCESS)
}

/// The settings of users that have no effect under the scheduler.
fn limits(honours_weights: bool) -> &'static str {
    match honours_weights {
        true => {
            "cgroup limits (cpu.max) are not honoured, weights (cpu.weight) and nice values are"
        }
        false => {
            "cgroup weights (cpu.weight) and limits (cpu.max) are not honoured, nice values are: this kernel lacks \
             CONFIG_EXT_GROUP_SCHED"
        }
    }
}

/// Attaches the scheduler for the CPUs of this machine.
pub(super) fn attach(settings: Settings, switch: Switch) -> Result<Running, Problem> {
    let topology = Topology::read().map_err(|error| Problem::usage(error.to_string()))?;
    Ok(daiko_scx::start(settings, switch, &processors::of(&topology))?)
}

/// Changes the settings of the attached scheduler.
fn change(
    attached: &Attached,
    request: &ScheduleRequest,
    declared: &mut Declared,
    out: &mut dyn Write,
) -> Result<ExitCode, Problem> {
    if !request.only.is_empty() {
        return Err(Problem::usage(
            "--only: the scheduler is attached already; daiko schedule stop, then start it anew",
        ));
    }
    attached.change(request.settings)?;
    let threads = declared.declare_new(&attached.classes())?;
    writeln!(out, "attached already: its policy is now {}", request.settings)?;
    if threads > 0 {
        writeln!(out, "{threads} threads have a class")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Keeps the scheduler attached until it is told to end, also after CPUs have come or gone.
pub(super) fn keep(
    mut running: Running,
    switch: Switch,
    interval: Duration,
    classes: &mut dyn Supply,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<(), Problem> {
    loop {
        let shown = show(&running, interval, classes, stop, out);
        // The scheduler ends even if standard output has failed.
        running.stop()?;
        let End::Restart(ending, settings) = shown? else { return Ok(()) };
        writeln!(out, "started again: {ending}")?;
        running = attach(settings, switch)?;
        classes.forget();
    }
}

/// Prints a line each `interval` until the scheduler ends or is to end.
fn show(
    running: &Running,
    interval: Duration,
    classes: &mut dyn Supply,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<End, Problem> {
    let mut lines = 0;
    let (mut before, mut since) = (running.counters()?, Instant::now());
    while !stop.load(Relaxed) && !running.is_to_stop()? {
        match running.ending()? {
            None => {}
            Some(ending) if ending.is_restart() => {
                return Ok(End::Restart(ending, running.settings()?));
            }
            Some(ending) => return Err(Problem::System(ending.into_error().to_string())),
        }
        if !classes.declare(&running.classes())? {
            break;
        }
        classes.wait(LOOK.min(interval.saturating_sub(since.elapsed())));
        if since.elapsed() >= interval {
            let now = running.counters()?;
            if lines % PAGE == 0 {
                writeln!(out, "{}", heading())?;
            }
            writeln!(out, "{}", rates(&now.since(&before), since.elapsed(), running.settings()?))?;
            (before, since, lines) = (now, Instant::now(), lines + 1);
        }
    }
    Ok(End::Asked)
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

/// The scheduler that another process has attached.
pub(crate) fn attached() -> Result<Attached, Problem> {
    Attached::find()?.ok_or_else(|| {
        Problem::usage("Daiko's scheduler is not attached; daiko schedule start attaches it")
    })
}

/// Tells the process that has started the scheduler to end it.
pub(crate) fn stop(out: &mut dyn Write) -> Result<ExitCode, Problem> {
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

fn failed(error: Error) -> Problem {
    Problem::System(error.to_string())
}
