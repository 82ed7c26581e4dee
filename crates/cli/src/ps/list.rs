//! The processes that have a runtime.

use std::{io::Write, process::ExitCode};

use daiko_inspect::{InspectError, Subject, command_of};
use serde_json::json;

use crate::{problem::Problem, subjects};

/// A process with a runtime.
struct Listed {
    process: u32,
    name: String,
    release: String,
    runtimes: usize,
    workers: usize,
}

/// Prints the processes.
pub(super) fn run(json: bool, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let (mut listed, mut denied) = (Vec::new(), 0);
    for process in subjects::processes()? {
        match Subject::process(process) {
            Ok(subject) => listed.extend(describe(process, &subject)),
            Err(InspectError::Denied { .. }) => denied += 1,
            // It has ended meanwhile.
            Err(_) => {}
        }
    }
    if json {
        let process = |listed: &Listed| {
            json!({
                "process": listed.process,
                "name": listed.name,
                "release": listed.release,
                "runtimes": listed.runtimes,
                "workers": listed.workers,
            })
        };
        let processes: Vec<_> = listed.iter().map(process).collect();
        writeln!(out, "{}", json!({ "processes": processes, "denied": denied }))?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{:>8}  {:>8}  {:>8}  {:>7}  NAME", "PROCESS", "RELEASE", "RUNTIMES", "WORKERS")?;
    for Listed { process, name, release, runtimes, workers } in &listed {
        writeln!(out, "{process:>8}  {release:>8}  {runtimes:>8}  {workers:>7}  {name}")?;
    }
    if denied > 0 {
        let processes = if denied == 1 { "process" } else { "processes" };
        writeln!(
            out,
            "{denied} {processes} may not be read: be their user with ptrace_scope 0, or root"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(process: u32, subject: &Subject) -> Option<Listed> {
    let readers = subject.readers().ok()?;
    let runtimes: Vec<_> = readers.iter().flat_map(|reader| reader.runtimes()).collect();
    if runtimes.is_empty() {
        return None;
    }
    let workers = |runtime: &daiko_inspect::RuntimeRow| {
        runtime.workers.iter().filter(|worker| worker.thread != 0).count()
    };
    Some(Listed {
        process,
        name: command_of(process),
        release: readers.first()?.release().to_owned(),
        runtimes: runtimes.len(),
        workers: runtimes.iter().map(workers).sum(),
    })
}
