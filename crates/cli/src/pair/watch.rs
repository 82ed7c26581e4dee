//! Periodic observation and placement of threads, at a bounded cost.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fs, io,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use daiko_core::place::SiblingUse as Placement;
use daiko_pair::{
    Class,
    class::{Classification, Look, decide},
    journal::PutBack,
    machine::ThisMachine,
    progress::Progress,
    session::Session,
    thread::{self, Thread, ThreadId},
    trial::{Trials, Tried},
};
use daiko_sys::{clock, topology::Topology};

use super::{
    line::{Means, PairPolicy, PairRequest},
    table::ThreadTable,
};

/// Observations take at most one part in this many of a CPU.
const PARTS: u32 = 200;
/// The interval of the first observations, which is short as programs have just started.
const FIRST: Duration = Duration::from_millis(200);
const FIRST_LOOKS: u32 = 3;
/// Duration of one slice of a trial.
const SLICE: Duration = Duration::from_millis(50);
/// Threads observed in one round: those that take about a second.
const MOST: usize = 48;

pub(super) struct Watch {
    policy: PairPolicy,
    by: Option<Means>,
    session: Session<ThisMachine>,
    /// The first threads of the processes.
    roots: Vec<ThreadId>,
    classes: BTreeMap<String, Class>,
    trials: Trials,
    look: Look,
    interval: Duration,
    next: Instant,
    looks: u32,
    /// CPU time of threads at their last observation. Threads that have not run since are not
    /// observed.
    ticks: BTreeMap<ThreadId, u64>,
}

impl Watch {
    pub(super) fn new(
        request: &PairRequest,
        session: Session<ThisMachine>,
        roots: Vec<ThreadId>,
        progress: BTreeMap<u32, Progress>,
        topology: &Topology,
    ) -> Self {
        Self {
            policy: request.policy,
            by: request.by,
            session,
            roots,
            classes: request.classes.clone(),
            trials: Trials::new(progress),
            look: Look::here(Some(topology)),
            interval: Duration::from_secs(request.interval),
            next: Instant::now() + FIRST,
            looks: 0,
            ticks: BTreeMap::new(),
        }
    }

    /// Returns true if all processes have ended.
    pub(super) fn have_ended(&self) -> bool {
        !self.roots.iter().any(ThreadId::process_lives)
    }

    /// Observes and places threads if it is time to.
    ///
    /// # Errors
    ///
    /// If a change cannot be recorded, or if the scheduler has ended and masks are excluded.
    pub(super) fn round(&mut self, table: &mut ThreadTable, stop: &AtomicBool) -> io::Result<()> {
        if Instant::now() < self.next {
            return Ok(());
        }
        let begin = clock::process_cpu_ns();
        let ran = self.observe(table)?;
        match self.place(&ran, table, stop) {
            Err(error) if self.may_fall_back(&error) => {
                table.line("the scheduler has ended; from now on threads are placed by masks");
            }
            placed => placed?,
        }
        if let Some(why) = self.session.unwatched() {
            let late = "threads that bound threads start are put back late, as not all are watched";
            table.line_once(&format!("{late}: {why}"));
        }
        table.show(&self.session);
        self.schedule(begin);
        Ok(())
    }

    /// Observes threads if it is time to, and returns those that have run since the last
    /// observation.
    ///
    /// # Errors
    ///
    /// If a thread that is bound cannot be recorded.
    pub(super) fn look(&mut self, table: &mut ThreadTable) -> io::Result<Option<Vec<Thread>>> {
        if Instant::now() < self.next {
            return Ok(None);
        }
        let begin = clock::process_cpu_ns();
        let ran = self.observe(table)?;
        self.schedule(begin);
        Ok(Some(ran))
    }

    fn observe(&mut self, table: &mut ThreadTable) -> io::Result<Vec<Thread>> {
        let ran = self.scan()?;
        self.judge(&ran, table);
        Ok(ran)
    }

    /// Sets the time of the next observation, after one that began at this CPU time.
    fn schedule(&mut self, begin: u64) {
        let taken = Duration::from_nanos(clock::process_cpu_ns() - begin);
        self.looks += 1;
        self.next = Instant::now() + pause(taken, self.interval, self.looks);
    }

    /// The session.
    pub(super) fn session(&mut self) -> &mut Session<ThisMachine> {
        &mut self.session
    }

    /// Finds all threads and returns those that have run since their last observation.
    fn scan(&mut self) -> io::Result<Vec<Thread>> {
        let found = found(&self.roots);
        self.session.watch(&found)?;
        let ids: BTreeSet<ThreadId> = found.iter().map(|thread| thread.id).collect();
        self.ticks.retain(|id, _| ids.contains(id));
        // A thread that executes a program continues as the first thread of its process, with
        // another CPU time.
        let before = |thread: &Thread| *self.ticks.get(&thread.id).unwrap_or(&0);
        let since = |thread: &Thread| thread.ticks.saturating_sub(before(thread));
        let mut ran: Vec<Thread> = found.into_iter().filter(|thread| since(thread) > 0).collect();
        // Threads left out of the last round have run for longest.
        ran.sort_by_key(|thread| Reverse(since(thread)));
        ran.truncate(MOST);
        for thread in &ran {
            self.ticks.insert(thread.id, thread.ticks);
        }
        Ok(ran)
    }

    fn judge(&mut self, ran: &[Thread], table: &mut ThreadTable) {
        let mut undeclared = Vec::new();
        for thread in ran {
            match self.declared(thread) {
                Some(class) => _ = self.session.look(thread.id, Classification::declared(class)),
                None => undeclared.push(thread),
            }
        }
        let ids: Vec<(u32, u32)> =
            undeclared.iter().map(|thread| (thread.id.pid, thread.id.tid)).collect();
        let mut wait = |time| _ = self.session.wait(time);
        for (thread, evidence) in undeclared.iter().zip(self.look.at(&ids, &mut wait)) {
            // A failure is not reported if the thread has ended, which the next round finds out.
            if let Err(why) = evidence.profile.as_ref()
                && thread.id.lives()
            {
                table.line_once(&format!("no sampling: {why}"));
            }
            self.session.look(thread.id, decide(None, &evidence));
        }
    }

    /// The declared class, by the name or id of the thread or of its process.
    fn declared(&self, thread: &Thread) -> Option<Class> {
        if self.classes.is_empty() {
            return None;
        }
        let ThreadId { pid, tid, .. } = thread.id;
        let process = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let names = [thread.name.as_str(), process.trim_end(), &tid.to_string(), &pid.to_string()];
        names.iter().find_map(|name| self.classes.get(*name).copied())
    }

    fn place(
        &mut self,
        ran: &[Thread],
        table: &mut ThreadTable,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let policy = self.policy;
        let placement = match policy {
            PairPolicy::Cross => Some(Placement::Cross),
            PairPolicy::Parallel => Some(Placement::Parallel),
            PairPolicy::NoSmt => Some(Placement::NoSmt),
            PairPolicy::Auto if self.session.can_cross() => Some(Placement::Cross),
            PairPolicy::Auto if self.is_tried(ran, table, stop)? => return Ok(()),
            PairPolicy::Auto => None,
        };
        if placement.is_some() {
            self.trials.forget();
        }
        self.session.place(placement).map(drop)
    }

    /// Returns true if the error is the end of a scheduler that masks may stand in for.
    fn may_fall_back(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::BrokenPipe && self.by != Some(Means::Schedule)
    }

    /// Runs a trial if necessary. Returns true if a pairing is in force.
    fn is_tried(
        &mut self,
        ran: &[Thread],
        table: &mut ThreadTable,
        stop: &AtomicBool,
    ) -> io::Result<bool> {
        let ids: Vec<ThreadId> = ran.iter().map(|thread| thread.id).collect();
        let mut slice =
            |session: &mut Session<ThisMachine>| session.wait(SLICE) && !stop.load(Relaxed);
        Ok(match self.trials.run(&mut self.session, &ids, &mut slice)? {
            Tried::Before => true,
            Tried::Now => {
                table.line("paired by trial: the pairing with the most progress is kept");
                true
            }
            Tried::Nothing => false,
            Tried::Unavailable(why) => {
                table.line_once(&format!("no trial of pairings: {why}"));
                false
            }
        })
    }

    /// Waits. Bound threads that start threads or processes are put back meanwhile.
    pub(super) fn wait(&mut self, time: Duration) {
        // It is placed anew in the next round.
        let _ = self.session.wait(time);
    }

    /// Puts all threads back.
    ///
    /// # Errors
    ///
    /// If the journal cannot be removed although all threads are put back.
    pub(super) fn end(self) -> io::Result<PutBack> {
        self.session.end()
    }
}

/// The threads of the processes with these first threads, and of their descendants.
pub(super) fn found(roots: &[ThreadId]) -> Vec<Thread> {
    let roots = roots.iter().filter(|root| root.process_lives());
    let pids = thread::families(roots.map(|root| root.pid));
    pids.into_iter().flat_map(|pid| thread::of(pid).unwrap_or_default()).collect()
}

/// The pause after an observation that took this much of a CPU.
fn pause(taken: Duration, interval: Duration, looks: u32) -> Duration {
    let rare = taken * PARTS;
    if looks < FIRST_LOOKS { FIRST } else { interval.max(rare) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_rare_as_they_are_dear() {
        let (second, ms) = (Duration::from_secs(1), Duration::from_millis(1));
        assert_eq!(pause(ms, second, FIRST_LOOKS), second);
        assert_eq!(pause(20 * ms, second, FIRST_LOOKS), 4 * second);
        assert_eq!(pause(20 * ms, second, 1), FIRST);
    }
}
