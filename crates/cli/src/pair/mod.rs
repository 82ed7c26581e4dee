//! `daiko pair`: makes threads of unmodified programs share cores with threads that complement
//! them.
//!
//! 1. All errors are found before the first command starts and the first thread is bound.
//! 2. Threads are observed and placed in rounds, until all processes have ended or an interrupt
//!    comes. An interrupt is passed on to commands as SIGTERM.
//! 3. All threads get their previous affinity back. A later interrupt ends the command at once:
//!    `daiko pair --restore` puts them back.
//!
//! The exit code is that of the first command that failed, or 128 plus the signal that killed it.

mod advise;
mod commands;
mod line;
mod means;
mod table;
mod watch;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use daiko_pair::{
    journal::{self, Journal, PutBack, Restored},
    machine::ThisMachine,
    progress::Progress,
    session::{Session, Sites},
    thread::ThreadId,
};
use daiko_sys::{cpu, topology::Topology};

use self::{commands::Commands, means::Scheduler, table::ThreadTable, watch::Watch};
pub use line::{AdviceRequest, Means, PairCommand, PairPolicy, PairRequest, Targets};
pub(crate) use line::{PairLine, class};

use crate::{interrupts::stop_flag, problem::Problem};

/// Time between two checks for ended processes.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a request of `daiko pair`.
pub(crate) fn run(command: &PairCommand, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    match command {
        PairCommand::Restore => restore(out),
        PairCommand::Run(request) => pair(request),
        PairCommand::Advise(request) => advise::advise(request, out),
    }
}

fn restore(out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let folder = journal::folder();
    let restored = journal::restore(&folder, &ThisMachine).map_err(|error| {
        Problem::System(format!("cannot read the journals in {}: {error}", folder.display()))
    })?;
    let Restored { running, killed, threads, left } = restored;
    let PutBack { threads, changed, refused } = threads;
    writeln!(
        out,
        "{killed} sessions were killed: {threads} threads may run again as before, {changed} were bound by another process since"
    )?;
    if running > 0 {
        writeln!(out, "{running} sessions go on, and were left alone")?;
    }
    match left.first() {
        _ if refused > 0 => Err(refusal(refused)),
        Some((path, why)) => {
            Err(Problem::System(format!("{} is left as it is: {why}", path.display())))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The error for refused threads. Only a thread that has changed its user cannot be put back by the
/// process that bound it.
fn refusal(threads: usize) -> Problem {
    Problem::System(format!(
        "{threads} threads cannot be put back, as they belong to another user now: their previous CPUs are recorded in {}; as \
         root, taskset -cp sets them",
        journal::folder().display()
    ))
}

/// The subject of a request, before any command runs.
struct Subject {
    topology: Topology,
    commands: Commands,
    /// The first threads of the processes.
    roots: Vec<ThreadId>,
    /// Declared progress by process.
    progress: BTreeMap<u32, Progress>,
    session: Session<ThisMachine>,
    stop: Arc<AtomicBool>,
}

impl Subject {
    fn prepare(request: &PairRequest) -> Result<Self, Problem> {
        let topology = topology(request.root.as_deref())?;
        let sites = sites(request, &topology)?;
        let running = processes(&request.targets)?;
        let stop = stop_flag()?;
        let commands = Commands::hold(&request.targets)?;
        let roots = if commands.are_there() { first_threads(&commands.pids())? } else { running };
        let pids: Vec<u32> = roots.iter().map(|root| root.pid).collect();
        let progress = progress(request, &pids)?;
        let session = Session::new(ThisMachine, sites, journal()?);
        Ok(Self { topology, commands, roots, progress, session, stop })
    }
}

fn pair(request: &PairRequest) -> Result<ExitCode, Problem> {
    let Subject { topology, mut commands, roots, progress, mut session, stop } =
        Subject::prepare(request)?;
    let mut table = ThreadTable::new(!commands.are_there());
    let mut scheduler = None;
    if session.sites().has_siblings() || request.policy == PairPolicy::NoSmt {
        let pids: Vec<u32> = roots.iter().map(|root| root.pid).collect();
        if let Some((process, feed)) = means::choose(request, &pids, &mut table)? {
            scheduler = Some(process);
            session.pair_by(feed);
        }
    } else {
        let why = no_siblings(session.sites(), &topology);
        table.line(&format!("nothing is paired: {why}"));
    }
    let watch = Watch::new(request, session, roots, progress, &topology);
    commands.release();
    let followed = follow(watch, &mut commands, &mut table, &stop);
    scheduler.map_or(Ok(()), Scheduler::end)?;
    followed?;
    Ok(commands.exit_code())
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
    let refused = request.cpus.as_ref().map(|cpus| cpus.difference(allowed));
    if let Some(refused) = refused.filter(|refused| !refused.is_empty()) {
        return Err(Problem::usage(format!(
            "--cpus: {refused} cannot be used here; allowed are {allowed}"
        )));
    }
    let runs_without = matches!(request.policy, PairPolicy::Auto | PairPolicy::NoSmt)
        && request.by != Some(Means::Schedule);
    if sites.has_siblings() || runs_without {
        return Ok(sites);
    }
    let why = no_siblings(&sites, topology);
    Err(Problem::usage(format!(
        "cannot pair, nothing was started: {why}; --policy auto without --by schedule runs and watches"
    )))
}

fn no_siblings(sites: &Sites, topology: &Topology) -> String {
    match topology.has_siblings() {
        true => format!("of {} no two are siblings", sites.set()),
        false => topology.smt().to_string(),
    }
}

/// The first threads of running processes; none for commands.
fn processes(targets: &Targets) -> Result<Vec<ThreadId>, Problem> {
    match targets {
        Targets::Processes(pids) => first_threads(pids),
        Targets::Commands(_) => Ok(Vec::new()),
    }
}

fn first_threads(pids: &[u32]) -> Result<Vec<ThreadId>, Problem> {
    pids.iter().map(|pid| process_of(*pid)).collect()
}

/// The first thread of a running process.
pub(crate) fn process_of(pid: u32) -> Result<ThreadId, Problem> {
    match ThreadId::of_process(pid) {
        Ok(first) if first.process_lives() => Ok(first),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(Problem::usage(format!("{error}: give that")))
        }
        Ok(_) | Err(_) => Err(Problem::usage(format!(
            "no process {pid}: it has ended, or lives in another PID namespace"
        ))),
    }
}

/// The declared counts of processes, by process id.
fn progress(request: &PairRequest, roots: &[u32]) -> Result<BTreeMap<u32, Progress>, Problem> {
    let mut declared = BTreeMap::new();
    for (subject, file) in &request.progress {
        let pid = match &request.targets {
            Targets::Processes(pids) => pids.iter().find(|pid| *pid == subject),
            Targets::Commands(_) => roots.get((*subject as usize).wrapping_sub(1)),
        };
        let pid = pid.ok_or_else(|| {
            Problem::usage(format!(
                "--progress: {subject} is none of the processes, or of the commands from 1 on"
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
                format!("{folder} has a journal of a killed session: run daiko pair --restore")
            }
            _ => format!(
                "cannot record changes in {folder}: {error}; nothing was changed: make room there, or set \
                 XDG_RUNTIME_DIR to a folder of your own"
            ),
        })
    })
}

/// Watches until all processes have ended or `stop` is set, then puts all threads back.
///
/// If a change cannot be recorded, nothing is placed any more, but commands are waited for.
fn follow(
    watch: Watch,
    commands: &mut Commands,
    table: &mut ThreadTable,
    stop: &AtomicBool,
) -> Result<(), Problem> {
    let (mut watch, mut done, mut is_told) = (Some(watch), Ok(()), false);
    loop {
        commands.reap();
        let is_over = match &watch {
            _ if commands.are_there() => commands.have_ended(),
            Some(watch) => watch.have_ended() || stop.load(Relaxed),
            None => true,
        };
        if is_over {
            return watch.map_or(done, |watch| end(watch, None));
        }
        if stop.load(Relaxed) && !is_told {
            commands.terminate();
            is_told = true;
        }
        if let Some(Err(error)) = watch.as_mut().map(|watch| watch.round(table, stop)) {
            done = end(watch.take().expect("it has just looked"), Some(error));
            if let Err(problem) = &done {
                table.line(&problem.to_string());
            }
        }
        match &mut watch {
            Some(watch) => watch.wait(LOOK),
            None => thread::sleep(LOOK),
        }
    }
}

/// Puts all threads back and returns the first error.
fn end(watch: Watch, failed: Option<io::Error>) -> Result<(), Problem> {
    match (watch.end(), failed) {
        (Ok(PutBack { refused, .. }), _) if refused > 0 => Err(refusal(refused)),
        (Err(error), _) => Err(Problem::System(format!(
            "all threads are put back, but the journal cannot be removed: {error}"
        ))),
        (Ok(_), Some(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(Problem::System(
            "the scheduler has ended; nothing is placed any more, as --by schedule excludes masks"
                .into(),
        )),
        (Ok(_), Some(error)) => Err(Problem::System(format!(
            "cannot record a change: {error}; nothing is placed any more, and all threads are put back: make room in {}",
            journal::folder().display()
        ))),
        (Ok(_), None) => Ok(()),
    }
}
