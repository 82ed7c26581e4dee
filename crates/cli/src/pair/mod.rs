//! `daiko pair`: has threads of programs that know nothing of Daiko share cores with those that complement them.
//!
//! 1. All that can be wrong is found before the first command starts and the first thread is bound.
//! 2. Threads are looked at, placed, and looked at again, until all processes have ended or an interrupt comes; an interrupt
//!    is passed on to commands as SIGTERM.
//! 3. All threads may run again as before. A second interrupt ends the command at once: `daiko pair --restore` puts them back.
//!
//! The exit code is that of the first command that did not succeed, 128 and the signal for one that was killed by it.

mod commands;
mod line;
mod table;
mod watch;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use daiko_pair::{
    journal::{self, Journal, Restored},
    machine::Kernel,
    progress::Progress,
    session::{Session, Sites},
    thread as threads,
};
use daiko_sys::{cpu, topology::Topology};

use self::{commands::Commands, table::Table, watch::Watch};
pub(crate) use line::PairLine;
pub use line::{PairCommand, PairRequest, Policy, Targets};

use crate::{interrupts::stop_flag, problem::Problem};

/// Between two looks whether anything has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Does what the command line says.
pub(crate) fn run(command: &PairCommand, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    match command {
        PairCommand::Restore => restore(out),
        PairCommand::Run(request) => pair(request),
    }
}

fn restore(out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let folder = journal::folder();
    let restored = journal::restore(&folder, &Kernel).map_err(|error| {
        Problem::System(format!("cannot read the journals in {}: {error}", folder.display()))
    })?;
    let Restored { running, killed, threads, changed, refused } = restored;
    writeln!(
        out,
        "{killed} sessions were killed: {threads} threads may run again as before, {changed} were bound by others since"
    )?;
    if running > 0 {
        writeln!(out, "{running} sessions go on, and were left alone")?;
    }
    match refused {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Problem::System(format!(
            "{refused} threads cannot be put back: run it as root; what is to be restored stays noted"
        ))),
    }
}

fn pair(request: &PairRequest) -> Result<ExitCode, Problem> {
    let topology = topology(request.root.as_deref())?;
    let sites = sites(request, &topology)?;
    check_processes(&request.targets)?;
    let stop = stop_flag()?;
    let mut commands = Commands::hold(&request.targets)?;
    let roots = match &request.targets {
        Targets::Processes(pids) => pids.clone(),
        Targets::Commands(_) => commands.pids(),
    };
    let progress = progress(request, &roots)?;
    let session = Session::new(Kernel, sites, journal()?);
    let mut table = Table::new(matches!(request.targets, Targets::Processes(_)));
    if !session.sites().has_siblings() {
        table.line(&format!("nothing is paired: {}", topology.smt()));
    }
    let mut watch = Watch::new(request, session, roots, progress, &topology);
    commands.release();
    let ended = follow(&mut watch, &mut commands, &mut table, &stop);
    let stuck = watch.end().map_err(|error| {
        Problem::System(format!("all is put back, but its journal cannot be removed: {error}"))
    })?;
    ended?;
    match stuck {
        0 => Ok(commands.exit_code()),
        _ => Err(Problem::System(format!(
            "{stuck} threads cannot be put back: run daiko pair --restore as root"
        ))),
    }
}

fn topology(root: Option<&Path>) -> Result<Topology, Problem> {
    let read = match root {
        None => Topology::read(),
        Some(root) => cpu::allowed()
            .map_err(|error| Problem::System(format!("cannot read the affinity mask: {error}")))
            .map(|allowed| Topology::read_in(root, Some(&allowed)))?,
    };
    read.map_err(|error| Problem::usage(error.to_string()))
}

fn sites(request: &PairRequest, topology: &Topology) -> Result<Sites, Problem> {
    let sites = Sites::of(topology, request.cpus.as_ref());
    let allowed = topology.allowed();
    if let Some(cpus) = request.cpus.as_ref().filter(|_| sites.is_empty()) {
        return Err(Problem::usage(format!(
            "--cpus: none of {cpus} is allowed here; allowed are {allowed}"
        )));
    }
    if sites.has_siblings() || matches!(request.policy, Policy::Auto | Policy::Nosmt) {
        return Ok(sites);
    }
    let why = match topology.has_siblings() {
        true => format!("of {} no two are siblings", sites.set()),
        false => topology.smt().to_string(),
    };
    Err(Problem::usage(format!(
        "cannot pair, nothing was started: {why}; --policy auto runs and watches without"
    )))
}

fn check_processes(targets: &Targets) -> Result<(), Problem> {
    let Targets::Processes(pids) = targets else { return Ok(()) };
    let missing = pids.iter().find(|pid| threads::of(**pid).is_err());
    missing.map_or(Ok(()), |pid| {
        Err(Problem::usage(format!(
            "no process {pid}: it has ended, or lives in another PID namespace"
        )))
    })
}

/// What processes count up, by their id.
fn progress(request: &PairRequest, roots: &[u32]) -> Result<BTreeMap<u32, Progress>, Problem> {
    let mut declared = BTreeMap::new();
    for (who, file) in &request.progress {
        let pid = match &request.targets {
            Targets::Processes(pids) => pids.iter().find(|pid| *pid == who),
            Targets::Commands(_) => roots.get((*who as usize).wrapping_sub(1)),
        };
        let pid = pid.ok_or_else(|| {
            Problem::usage(format!(
                "--progress: {who} is none of the processes, or of the commands from 1 on"
            ))
        })?;
        let progress = Progress::declared(file).map_err(|error| {
            Problem::usage(format!(
                "--progress: cannot read {}: {error}; make it, with 8 bytes, before",
                file.display()
            ))
        })?;
        declared.insert(*pid, progress);
    }
    Ok(declared)
}

fn journal() -> Result<Journal, Problem> {
    let folder = journal::folder();
    Journal::create(&folder).map_err(|error| {
        let folder = folder.display();
        Problem::usage(match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{folder} has a journal of a session that was killed: run daiko pair --restore")
            }
            _ => format!(
                "cannot note in {folder} what to restore: {error}; nothing was changed: make room there, or set \
                 XDG_RUNTIME_DIR to a folder of your own"
            ),
        })
    })
}

/// Watches until all have ended, or it is told to stop.
fn follow(
    watch: &mut Watch,
    commands: &mut Commands,
    table: &mut Table,
    stop: &AtomicBool,
) -> Result<(), Problem> {
    let mut is_told = false;
    loop {
        commands.reap();
        if commands.have_ended() && (commands.are_there() || watch.have_ended()) {
            return Ok(());
        }
        if stop.load(Relaxed) && !is_told {
            if !commands.are_there() {
                return Ok(());
            }
            commands.terminate();
            is_told = true;
        }
        watch.round(table, stop).map_err(|error| {
            Problem::System(format!(
                "cannot note what to restore: {error}; all is put back: make room in {}",
                journal::folder().display()
            ))
        })?;
        thread::sleep(LOOK);
    }
}
