//! Trials of pairings, where nothing else tells which is best.

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use daiko_pair::{
    machine::Kernel,
    progress::Progress,
    session::{Session, Standing},
    thread::{Thread, ThreadId},
    trial::Trial,
};

use super::table::Table;

/// How long each pairing is tried.
const SLICE: Duration = Duration::from_millis(100);

pub(super) struct Trials {
    /// By process, as declared.
    declared: BTreeMap<u32, Progress>,
    /// For whom it was tried last.
    tried: Vec<ThreadId>,
    /// Whether what was tried is in force.
    decided: bool,
}

impl Trials {
    pub(super) fn new(declared: BTreeMap<u32, Progress>) -> Self {
        Self { declared, tried: Vec::new(), decided: false }
    }

    /// Tries pairings of the threads that run, if they are others than before; whether threads are placed by trial.
    ///
    /// # Errors
    ///
    /// If a change cannot be noted.
    pub(super) fn run(
        &mut self,
        session: &mut Session<Kernel>,
        ran: &[Thread],
        table: &mut Table,
        stop: &AtomicBool,
    ) -> io::Result<bool> {
        let threads = runners(session, ran);
        if threads == self.tried || threads.is_empty() && self.decided {
            return Ok(self.decided);
        }
        self.tried = threads;
        self.decided = false;
        // More of seeds than of luck: others are tried for other threads.
        let seed = self.tried.iter().map(|id| u64::from(id.tid)).sum();
        let sites = session.sites().sites().to_vec();
        let Some(trial) = Trial::new(self.tried.len(), &sites, seed) else { return Ok(false) };
        let counted = match self.progress() {
            Ok(counted) => counted,
            Err(why) => {
                table.line(&format!("no trial of pairings: {why}"));
                return Ok(false);
            }
        };
        let sources: Vec<&Progress> = (0..self.tried.len()).map(|at| self.source(at, &counted)).collect();
        let Some(best) = slices(trial, session, &self.tried, &sources, stop)? else { return Ok(false) };
        session.put(&self.tried, &best)?;
        table.line("paired by trial: the pairing that made the most progress is kept");
        self.decided = true;
        Ok(true)
    }

    /// Counters of instructions for all that have not declared anything, by their place.
    fn progress(&self) -> Result<BTreeMap<usize, Progress>, String> {
        let mut counted = BTreeMap::new();
        for (at, id) in self.tried.iter().enumerate() {
            if !self.declared.contains_key(&id.pid) {
                let progress = Progress::instructions(id.tid)
                    .map_err(|error| format!("{error}; or declare a number that process {} counts up (--progress)", id.pid))?;
                counted.insert(at, progress);
            }
        }
        Ok(counted)
    }

    fn source<'a>(&'a self, at: usize, counted: &'a BTreeMap<usize, Progress>) -> &'a Progress {
        counted.get(&at).unwrap_or_else(|| &self.declared[&self.tried[at].pid])
    }
}

/// Threads that have run since the last look and may be placed.
fn runners(session: &Session<Kernel>, ran: &[Thread]) -> Vec<ThreadId> {
    let may = |id: &ThreadId| {
        session.threads().any(|(known, watched)| {
            known == id && !matches!(watched.standing(), Standing::Left(_))
        })
    };
    let mut threads: Vec<ThreadId> = ran.iter().map(|thread| thread.id).filter(may).collect();
    threads.sort_unstable();
    threads
}

/// The best pairing; `None` if a thread has ended meanwhile, or it is to stop.
fn slices(
    mut trial: Trial,
    session: &mut Session<Kernel>,
    threads: &[ThreadId],
    sources: &[&Progress],
    stop: &AtomicBool,
) -> io::Result<Option<Vec<usize>>> {
    let read = || sources.iter().map(|source| source.read()).collect::<io::Result<Vec<f64>>>();
    while let Some(pairing) = trial.next().cloned() {
        session.put(threads, &pairing)?;
        let Ok(before) = read() else { return Ok(None) };
        thread::sleep(SLICE);
        let Ok(after) = read() else { return Ok(None) };
        if stop.load(Relaxed) {
            return Ok(None);
        }
        trial.record(before.iter().zip(after).map(|(before, after)| after - before).collect());
    }
    Ok(trial.best().cloned())
}
