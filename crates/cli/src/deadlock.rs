//! `daiko deadlock`: cycles of waits, over fibers, threads and processes.

use std::{io::Write, process::ExitCode};

use daiko_inspect::{Deadlocks, Party, Subject, Waiting};
use serde_json::{Value, json};

use crate::{args::DeadlockRequest, problem::Problem, subjects};

/// The exit code if there is a deadlock.
const FOUND: u8 = 3;

/// Prints the cycles.
pub(crate) fn run(request: &DeadlockRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let subjects = match request.subjects.is_empty() {
        true => subjects::all_processes()?,
        false => {
            request.subjects.iter().map(|name| subjects::open(name)).collect::<Result<_, _>>()?
        }
    };
    let found = Deadlocks::among(&subjects).map_err(subjects::refused)?;
    match request.json {
        true => writeln!(out, "{}", as_json(&found, &subjects))?,
        false => print(&found, &subjects, out)?,
    }
    Ok(if found.cycles.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

fn print(found: &Deadlocks, subjects: &[Subject], out: &mut dyn Write) -> Result<(), Problem> {
    for cycle in &found.cycles {
        writeln!(out, "deadlock: a cycle of {} waits", cycle.len())?;
        for waiting in cycle {
            writeln!(out, "  {}", described(waiting, subjects))?;
        }
    }
    if found.cycles.is_empty() {
        writeln!(out, "no cycle among {} waits of {} processes", found.waiting, subjects.len())?;
    }
    for &at in &found.untracked {
        writeln!(
            out,
            "{} does not note the holders of locks: start it with DAIKO_TRACK_LOCKS=1, or build \
             its runtime with track_locks(true)",
            subjects[at].name()
        )?;
    }
    Ok(())
}

/// Describes a wait in one line.
fn described(waiting: &Waiting, subjects: &[Subject]) -> String {
    let mut line = subjects[waiting.subject].name().to_owned();
    match (waiting.party, &waiting.fiber) {
        (Party::Thread(id), _) => line += &format!(", thread {id}"),
        (Party::Fiber(id), fiber) => {
            let fiber = fiber.as_ref();
            match fiber.and_then(|fiber| fiber.name.as_ref()) {
                Some(name) => line += &format!(", fiber '{name}'"),
                None => line += &format!(", fiber {id:#x}"),
            }
            if let Some(place) = fiber.and_then(|fiber| fiber.spawned_at.as_ref()) {
                line += &format!(", spawned at {place}");
            }
        }
    }
    match (&*waiting.wait.kind, &waiting.file) {
        ("join", _) => line += ", waits for the end of the next",
        (_, Some((_, offset))) => {
            let place = subjects[waiting.subject].place_in_file(waiting.wait.object);
            let path = place.map_or("?", |(mapping, _)| mapping.path.as_str());
            line += &format!(", waits for the object at {offset:#x} of {path}, held by the next");
        }
        (kind, None) => {
            line += &format!(", waits for {kind} {:#x}, held by the next", waiting.wait.object);
        }
    }
    if let Some(place) = &waiting.held_at {
        line += &format!(" since {place}");
    }
    line
}

/// An object in one line. Fields may be added; these keep their names and meanings.
fn as_json(found: &Deadlocks, subjects: &[Subject]) -> Value {
    let waiting = |waiting: &Waiting| {
        let (fiber, thread) = match waiting.party {
            Party::Fiber(id) => (Some(format!("{id:#x}")), None),
            Party::Thread(id) => (None, Some(id)),
        };
        let row = waiting.fiber.as_ref();
        json!({
            "subject": subjects[waiting.subject].name(),
            "fiber": fiber,
            "thread": thread,
            "name": row.and_then(|row| row.name.as_deref()),
            "spawned_at": row.and_then(|row| Some(row.spawned_at.as_ref()?.to_string())),
            "wait": { "kind": &*waiting.wait.kind, "object": format!("{:#x}", waiting.wait.object) },
            "held_since": waiting.held_at.as_ref().map(ToString::to_string),
        })
    };
    let cycle = |cycle: &Vec<Waiting>| cycle.iter().map(waiting).collect::<Value>();
    let untracked = found.untracked.iter().map(|&at| subjects[at].name());
    json!({
        "cycles": found.cycles.iter().map(cycle).collect::<Value>(),
        "waiting": found.waiting,
        "untracked": untracked.collect::<Value>(),
    })
}
