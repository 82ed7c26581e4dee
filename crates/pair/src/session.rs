//! Threads of other programs, watched and placed until all of them are put back.
//!
//! A session places only threads with a known class and threads in a trial, and only on CPUs that
//! they might run on anyway. If siblings are to idle, it places all threads. A thread that another
//! party binds meanwhile is left alone from then on, also at the end.
//!
//! A thread is bound to all CPUs of a core, as siblings share all caches. It is bound only while it
//! starts no threads and processes, which would inherit that.
//!
//! With a [scheduler](Session::pair_by) that pairs by classes, complements get together by it, and
//! affinities serve trials only.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use daiko_core::place::{SiblingUse, Site, Task, assign, can_cross};
use daiko_sys::counters::CounterError;
use daiko_sys::cpu::CpuSet;
use daiko_sys::topology::Topology;

use crate::Class;
use crate::class::Classification;
use crate::feed::ClassFeed;
use crate::journal::{Journal, PutBack};
use crate::ledger::Cause;
use crate::machine::{Machine, is_gone};
use crate::steady::Steady;
use crate::thread::{Thread, ThreadId};

/// Watches for each CPU: two CPUs leave room for samples in the memory that the kernel lets each
/// user lock, 516 KiB for each CPU.
const WATCHES_PER_CPU: usize = 32;
/// Most watches, each of which has a descriptor.
const MOST_WATCHES: usize = 512;

/// CPUs on which threads may be placed.
#[derive(Clone, Debug)]
pub struct Sites {
    cpus: Vec<usize>,
    sites: Vec<Site>,
}

impl Sites {
    /// The allowed CPUs of a machine, restricted to `only` if given.
    pub fn of(topology: &Topology, only: Option<&CpuSet>) -> Self {
        let allowed = topology.allowed();
        let may = |cpu: usize| allowed.contains(cpu) && only.is_none_or(|only| only.contains(cpu));
        let cpus: Vec<_> = topology.cpus().iter().filter(|cpu| may(cpu.id)).collect();
        Self {
            cpus: cpus.iter().map(|cpu| cpu.id).collect(),
            sites: cpus.iter().map(|cpu| Site { core: cpu.core, node: cpu.node }).collect(),
        }
    }

    /// The CPUs that are also in `set`.
    fn within(&self, set: &CpuSet) -> Self {
        let all = self.cpus.iter().zip(&self.sites);
        let (cpus, sites) = all.filter(|(cpu, _)| set.contains(**cpu)).unzip();
        Self { cpus, sites }
    }

    /// Returns true if there is no CPU.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Returns true if two of the CPUs are siblings.
    pub fn has_siblings(&self) -> bool {
        let is_sibling =
            |(at, site): (usize, &Site)| self.sites[..at].iter().any(|s| s.core == site.core);
        self.sites.iter().enumerate().any(is_sibling)
    }

    /// The sites in the format of [`assign`].
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The CPUs of the core of a site.
    fn core_of(&self, site: usize) -> CpuSet {
        let all = self.cpus.iter().zip(&self.sites);
        let own = all.filter(|(_, other)| other.core == self.sites[site].core);
        own.map(|(cpu, _)| *cpu).collect()
    }

    /// A site of the core that has all these CPUs.
    fn site_of(&self, cpus: &CpuSet) -> Option<usize> {
        let site = self.cpus.iter().position(|cpu| cpus.contains(*cpu))?;
        cpus.difference(&self.core_of(site)).is_empty().then_some(site)
    }

    /// One CPU of each core.
    fn first_siblings(&self) -> CpuSet {
        let is_first =
            |at: &usize| self.sites[..*at].iter().all(|s| s.core != self.sites[*at].core);
        (0..self.cpus.len()).filter(is_first).map(|at| self.cpus[at]).collect()
    }

    /// All CPUs.
    pub fn set(&self) -> CpuSet {
        self.cpus.iter().copied().collect()
    }
}

/// The state of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Unchanged.
    Free,
    /// Bound to these CPUs.
    Placed(CpuSet),
    /// Placed by a scheduler, which knows its class.
    Scheduled,
    /// Left alone, for this reason.
    Left(&'static str),
}

/// A thread that is watched.
#[derive(Debug)]
pub struct WatchedThread {
    /// Its name when it was first seen.
    pub name: String,
    steady: Steady,
    /// The reason for its place, if a trial has decided.
    tried: Option<Classification>,
    /// Its affinity before the session.
    before: CpuSet,
    /// The affinity set by the session.
    bound: Option<CpuSet>,
    /// A scheduler knows its class.
    told: bool,
    /// The reason to leave it alone from now on.
    left: Option<&'static str>,
}

impl WatchedThread {
    /// Its classification.
    pub fn classification(&self) -> &Classification {
        self.tried.as_ref().unwrap_or(self.steady.classification())
    }

    /// Its state.
    pub fn standing(&self) -> Standing {
        match (self.left, &self.bound) {
            // A scheduler keeps to the affinity of a thread.
            _ if self.told => Standing::Scheduled,
            (Some(why), _) => Standing::Left(why),
            (None, Some(cpus)) => Standing::Placed(cpus.clone()),
            (None, None) => Standing::Free,
        }
    }

    fn class(&self) -> Class {
        self.steady.classification().class
    }

    /// Restores its previous affinity.
    fn put_back(&mut self, machine: &impl Machine, thread: ThreadId) {
        if self.bound.take().is_some()
            && let Err(error) = machine.bind(thread, &self.before)
            && !is_gone(&error)
        {
            self.left = Some("it cannot be put back");
        }
        self.tried = None;
    }
}

/// A placement problem, kept to skip a repetition by [`Session::place`].
#[derive(Debug, PartialEq, Eq)]
struct Question {
    policy: Option<SiblingUse>,
    cpus: Vec<usize>,
    tasks: Vec<(ThreadId, Class)>,
}

/// Watched threads and their placement. Dropping the session puts all threads back.
#[derive(Debug)]
pub struct Session<M: Machine> {
    machine: M,
    /// All CPUs at the start of the session.
    known: Sites,
    /// The CPUs of `known` that are online.
    sites: Sites,
    /// Present until the end.
    journal: Option<Journal>,
    threads: BTreeMap<ThreadId, WatchedThread>,
    /// Watches of the threads to be bound: they have started nothing since the last observation.
    quiet: BTreeMap<ThreadId, M::Watch>,
    /// The reason why a bound thread is not watched.
    unwatched: Option<String>,
    placed: Option<Question>,
    /// The scheduler that makes the pairs, if there is one.
    feed: Option<ClassFeed>,
}

impl<M: Machine> Session<M> {
    /// Creates a session without threads.
    pub fn new(machine: M, sites: Sites, journal: Journal) -> Self {
        let (known, journal) = (sites.clone(), Some(journal));
        let (threads, quiet) = (BTreeMap::new(), BTreeMap::new());
        let (unwatched, placed, feed) = (None, None, None);
        Self { machine, known, sites, journal, threads, quiet, unwatched, placed, feed }
    }

    /// Lets a scheduler make the pairs from now on, until it has ended.
    pub fn pair_by(&mut self, feed: ClassFeed) {
        self.feed = Some(feed);
    }

    /// The watched threads.
    pub fn threads(&self) -> impl Iterator<Item = (&ThreadId, &WatchedThread)> {
        self.threads.iter()
    }

    /// The state of one thread.
    pub fn watched(&self, thread: ThreadId) -> Option<&WatchedThread> {
        self.threads.get(&thread)
    }

    /// The CPUs for placement: those that were online at the last [`watch`](Self::watch).
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Watches exactly these threads. Threads that are not in the list any more are put back;
    /// threads that were not watched before are new.
    ///
    /// # Errors
    ///
    /// The error of recording a thread that is bound already, by the session or otherwise.
    pub fn watch(&mut self, found: &[Thread]) -> io::Result<()> {
        // If the query fails, all CPUs count as online; the kernel refuses those that are not.
        if let Ok(online) = self.machine.online() {
            self.sites = self.known.within(&online);
        }
        let ids: BTreeSet<ThreadId> = found.iter().map(|thread| thread.id).collect();
        for (id, watched) in self.threads.iter_mut().filter(|(id, _)| !ids.contains(id)) {
            watched.put_back(&self.machine, *id);
        }
        self.threads.retain(|id, _| ids.contains(id));
        self.quiet.retain(|id, _| ids.contains(id));
        for thread in found {
            if !self.threads.contains_key(&thread.id)
                && let Ok(mask) = self.machine.allowed_of(thread.id)
            {
                self.adopt(thread, mask)?;
            }
        }
        Ok(())
    }

    fn adopt(&mut self, thread: &Thread, mask: CpuSet) -> io::Result<()> {
        let journal = self.journal.as_mut().expect("there until the end");
        let (before, bound) = match journal.ledger().cause(thread.id, &mask, None) {
            Cause::Session(before) => (before.clone(), Some(mask)),
            Cause::Foreign | Cause::Own => (mask, None),
        };
        let is_narrow = !self.sites.set().difference(&before).is_empty();
        let left = is_narrow.then_some("bound to fewer CPUs before");
        if is_narrow || bound.is_some() {
            journal.note(thread.id, &before, bound.as_ref().unwrap_or(&before))?;
        }
        let steady = Steady::new(Classification::unknown("not looked at yet"));
        let name = thread.name.clone();
        let mut watched =
            WatchedThread { name, steady, tried: None, before, bound, told: false, left };
        // Without siblings in use, threads stay where they were started.
        let policy = self.placed.as_ref().and_then(|placed| placed.policy);
        if is_narrow || policy != Some(SiblingUse::NoSmt) {
            watched.put_back(&self.machine, thread.id);
        }
        self.threads.insert(thread.id, watched);
        Ok(())
    }

    /// Adds a classification of a thread. Returns true if the thread's class has changed.
    pub fn look(&mut self, thread: ThreadId, classification: Classification) -> bool {
        self.threads.get_mut(&thread).is_some_and(|watched| watched.steady.look(classification))
    }

    /// Places the threads with a known class, or all threads if the policy ignores classes; without
    /// a policy, none. Puts back all other placed threads. Does nothing if the problem is that of
    /// the last call. Returns true if a thread was changed.
    ///
    /// # Errors
    ///
    /// The error of recording a change: no thread was changed from there on. A thread that cannot
    /// be placed is left alone. `BrokenPipe` if the scheduler has ended: affinities take its place
    /// from the next call on.
    pub fn place(&mut self, policy: Option<SiblingUse>) -> io::Result<bool> {
        let by_classes = self.feed.is_some() && policy == Some(SiblingUse::Cross);
        let told = self.tell(by_classes)?;
        Ok(self.bind_by(policy.filter(|_| !by_classes))? | told)
    }

    /// Tells the scheduler, if there is one, the classes of all threads, or withdraws all.
    fn tell(&mut self, by_classes: bool) -> io::Result<bool> {
        let Some(feed) = &mut self.feed else { return Ok(false) };
        let class = |(id, watched): (&ThreadId, &WatchedThread)| (*id, watched.class());
        let known = self.threads.iter().map(class);
        let told = feed.tell(known.filter(|(_, c)| by_classes && *c != Class::Unknown).collect());
        for watched in self.threads.values_mut() {
            watched.told = by_classes && told.is_ok() && watched.class() != Class::Unknown;
        }
        if told.is_err() {
            self.feed = None;
        }
        told
    }

    /// Binds the threads that are to be placed and start nothing.
    fn bind_by(&mut self, policy: Option<SiblingUse>) -> io::Result<bool> {
        self.release_changed();
        // All CPUs may have gone offline.
        let policy = policy.filter(|_| !self.sites.is_empty());
        let mut tasks = policy.map_or_else(Vec::new, |policy| self.tasks_of(policy));
        if policy != Some(SiblingUse::NoSmt) {
            tasks.retain(|(id, _)| self.admit(*id));
        }
        let question = Question { policy, cpus: self.sites.cpus.clone(), tasks };
        if self.placed.as_ref() == Some(&question) {
            return Ok(false);
        }
        let threads: Vec<ThreadId> = question.tasks.iter().map(|(id, _)| *id).collect();
        let mut changed = self.free_the_rest(&threads);
        let cpus = match policy {
            None => Vec::new(),
            Some(SiblingUse::NoSmt) => vec![self.sites.first_siblings(); threads.len()],
            Some(policy) => {
                let sites = assign(policy, &self.sites.sites, &self.with_sites(&question.tasks));
                sites.into_iter().map(|site| self.sites.core_of(site)).collect()
            }
        };
        for (thread, cpus) in threads.iter().zip(cpus) {
            changed |= self.bind(*thread, cpus)?;
        }
        self.placed = Some(question);
        Ok(changed)
    }

    /// Returns true if the thread may be bound: it has started no thread or process since the last
    /// call for it, or that [cannot be watched](Self::unwatched). If a bound thread has started
    /// any, all are put back.
    pub fn admit(&mut self, thread: ThreadId) -> bool {
        if let Some(watch) = self.quiet.get(&thread) {
            if !self.machine.wait(&[watch], Duration::ZERO)[0] {
                return true;
            }
            self.put_back_family(thread);
        }
        let most = (WATCHES_PER_CPU * self.known.cpus.len()).min(MOST_WATCHES);
        if self.quiet.len() >= most {
            self.unwatched = Some(format!("there are more than {most} threads"));
            return true;
        }
        match self.machine.watch(thread) {
            Ok(watch) => {
                self.quiet.insert(thread, watch);
                false
            }
            // The next observation will not find it.
            Err(CounterError::NoSuchThread) => false,
            Err(error) => {
                self.unwatched = Some(error.to_string());
                true
            }
        }
    }

    /// Returns the reason why a thread was bound without a watch of its starts, if there was one.
    pub fn unwatched(&self) -> Option<&str> {
        self.unwatched.as_deref()
    }

    /// Waits for `time`. If a bound thread starts a thread or a process meanwhile, both are put
    /// back at once. Returns true if none has.
    pub fn wait(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut all_quiet = true;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let is_bound = |id| self.threads.get(id).is_some_and(|watched| watched.bound.is_some());
            let bound = self.quiet.iter().filter(|(id, _)| is_bound(*id));
            let (ids, watches): (Vec<ThreadId>, Vec<&M::Watch>) =
                bound.map(|(id, watch)| (*id, watch)).unzip();
            let started = self.machine.wait(&watches, left);
            for (id, _) in ids.into_iter().zip(started).filter(|(_, started)| *started) {
                self.put_back_family(id);
                all_quiet = false;
            }
            if left.is_zero() {
                return all_quiet;
            }
        }
    }

    fn put_back_family(&mut self, thread: ThreadId) {
        self.quiet.remove(&thread);
        let Some(watched) = self.threads.get_mut(&thread) else { return };
        if watched.bound.is_some() {
            watched.put_back(&self.machine, thread);
            let journal = self.journal.as_ref().expect("there until the end");
            journal.ledger().put_back_inheritors(&self.machine, thread.pid);
        }
    }

    /// Puts each of these threads on the core of the site with the given index, for a trial.
    ///
    /// # Errors
    ///
    /// The errors of [`place`](Self::place).
    pub fn put(&mut self, threads: &[ThreadId], sites: &[usize]) -> io::Result<()> {
        self.tell(false)?;
        self.release_changed();
        self.placed = None;
        self.free_the_rest(threads);
        for (thread, site) in threads.iter().zip(sites) {
            self.bind(*thread, self.sites.core_of(*site))?;
        }
        Ok(())
    }

    /// Records the reason for the placement of these threads by a trial.
    pub fn keep(&mut self, threads: &[ThreadId], classification: &Classification) {
        for thread in threads {
            if let Some(watched) = self.threads.get_mut(thread) {
                let class = watched.class();
                watched.tried = Some(Classification { class, ..classification.clone() });
            }
        }
    }

    /// Returns true if [`SiblingUse::Cross`] is [no risk](can_cross).
    pub fn can_cross(&self) -> bool {
        can_cross(&self.sites.sites, &self.with_sites(&self.tasks_of(SiblingUse::Cross)))
    }

    fn tasks_of(&self, policy: SiblingUse) -> Vec<(ThreadId, Class)> {
        let is_task = |watched: &WatchedThread| {
            watched.left.is_none()
                && (watched.class() != Class::Unknown || policy == SiblingUse::NoSmt)
        };
        let tasks = self.threads.iter().filter(|(_, watched)| is_task(watched));
        tasks.map(|(id, watched)| (*id, watched.class())).collect()
    }

    fn with_sites(&self, tasks: &[(ThreadId, Class)]) -> Vec<Task> {
        // The CPU of a thread may be offline, and its core still in use.
        let at = |id| {
            let site = self.known.site_of(self.threads[id].bound.as_ref()?)?;
            self.sites.sites.iter().position(|one| one.core == self.known.sites[site].core)
        };
        tasks.iter().map(|(id, class)| Task { class: *class, at: at(id) }).collect()
    }

    fn bind(&mut self, thread: ThreadId, during: CpuSet) -> io::Result<bool> {
        let Some(watched) = self.threads.get_mut(&thread) else { return Ok(false) };
        watched.tried = None;
        if watched.left.is_some() || watched.bound.as_ref() == Some(&during) {
            return Ok(false);
        }
        let journal = self.journal.as_mut().expect("there until the end");
        journal.note(thread, &watched.before, &during)?;
        let Err(error) = self.machine.bind(thread, &during) else {
            watched.bound = Some(during);
            return Ok(true);
        };
        let is_online = self.machine.online().map_or(true, |on| during.difference(&on).is_empty());
        watched.put_back(&self.machine, thread);
        watched.left = match error.kind() {
            // The next observation will not find the thread.
            _ if is_gone(&error) => None,
            io::ErrorKind::PermissionDenied => Some("another user's: run as root to place it"),
            // The next observation will not find that CPU.
            _ if !is_online => None,
            _ => Some("the kernel refuses that core for it"),
        }
        .or(watched.left);
        Ok(true)
    }

    /// Releases threads that another party has bound meanwhile. The kernel does not count as such:
    /// it lets a thread run anywhere once its last CPU goes offline.
    fn release_changed(&mut self) {
        let journal = self.journal.as_ref().expect("there until the end");
        let online = self.machine.online().ok();
        for (id, watched) in &mut self.threads {
            let Some(bound) = &watched.bound else { continue };
            let Ok(now) = self.machine.allowed_of(*id) else { continue };
            if now == *bound {
                continue;
            }
            match journal.ledger().cause(*id, &now, online.as_ref()) {
                Cause::Session(_) => watched.put_back(&self.machine, *id),
                Cause::Foreign | Cause::Own => {
                    watched.bound = None;
                    watched.left = Some("bound by another program meanwhile");
                }
            }
        }
    }

    /// Puts back all threads but these. Returns true if one was bound.
    fn free_the_rest(&mut self, threads: &[ThreadId]) -> bool {
        let kept: BTreeSet<&ThreadId> = threads.iter().collect();
        let mut changed = false;
        let rest = self.threads.iter_mut().filter(|(id, _)| !kept.contains(id));
        for (id, watched) in rest.filter(|(_, watched)| watched.bound.is_some()) {
            watched.put_back(&self.machine, *id);
            changed = true;
        }
        changed
    }

    /// Puts all threads back, including those started meanwhile. If a thread cannot be put back,
    /// the journal stays for another attempt.
    ///
    /// # Errors
    ///
    /// If the journal cannot be removed although all threads are put back.
    pub fn end(mut self) -> io::Result<PutBack> {
        let journal = self.journal.take().expect("it ends once");
        journal.finish(&self.machine)
    }
}

impl<M: Machine> Drop for Session<M> {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            // No caller is left to receive the result; threads that were not put back stay
            // recorded.
            let _ = journal.finish(&self.machine);
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
