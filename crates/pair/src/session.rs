//! Threads of others, watched and placed, until all is put back.
//!
//! Only threads whose class is known are placed, and only on CPUs that they might run on anyway. A thread that somebody else
//! binds meanwhile is left alone from then on, also at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use daiko_core::place::{Policy, Site, Task, assign};
use daiko_sys::cpu::CpuSet;
use daiko_sys::topology::Topology;

use crate::Class;
use crate::class::Verdict;
use crate::journal::Journal;
use crate::machine::{Machine, is_gone};
use crate::steady::Steady;
use crate::thread::{Thread, ThreadId};

/// CPUs that threads may be placed on.
#[derive(Clone, Debug)]
pub struct Sites {
    cpus: Vec<usize>,
    sites: Vec<Site>,
}

impl Sites {
    /// The allowed CPUs of a machine, or those of them that are in `only`.
    pub fn of(topology: &Topology, only: Option<&CpuSet>) -> Self {
        let allowed = topology.allowed();
        let may = |cpu: usize| allowed.contains(cpu) && only.is_none_or(|only| only.contains(cpu));
        let cpus: Vec<_> = topology.cpus().iter().filter(|cpu| may(cpu.id)).collect();
        Self {
            cpus: cpus.iter().map(|cpu| cpu.id).collect(),
            sites: cpus.iter().map(|cpu| Site { core: cpu.core, node: cpu.node }).collect(),
        }
    }

    /// Those of them that are in `set`.
    fn within(&self, set: &CpuSet) -> Self {
        let all = self.cpus.iter().zip(&self.sites);
        let (cpus, sites) = all.filter(|(cpu, _)| set.contains(**cpu)).unzip();
        Self { cpus, sites }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Whether two of them are siblings.
    pub fn has_siblings(&self) -> bool {
        let is_sibling =
            |(at, site): (usize, &Site)| self.sites[..at].iter().any(|s| s.core == site.core);
        self.sites.iter().enumerate().any(is_sibling)
    }

    /// As [`assign`] takes them.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// All of them.
    pub fn set(&self) -> CpuSet {
        self.cpus.iter().copied().collect()
    }
}

/// How a thread stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As it was.
    Free,
    /// On this CPU.
    Placed(usize),
    /// Left alone, for this reason.
    Left(&'static str),
}

/// A thread that is watched.
#[derive(Debug)]
pub struct Watched {
    /// Its name when it was seen first.
    pub name: String,
    steady: Steady,
    /// Where it might run before the session.
    before: CpuSet,
    standing: Standing,
}

impl Watched {
    /// What it is.
    pub fn verdict(&self) -> &Verdict {
        self.steady.verdict()
    }

    /// Where it is.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    fn is_task(&self) -> bool {
        self.verdict().class != Class::Unknown && !matches!(self.standing, Standing::Left(_))
    }
}

/// What [`Session::place`] answers.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    policy: Option<Policy>,
    cpus: Vec<usize>,
    tasks: Vec<(ThreadId, Class)>,
}

/// Threads that are watched, and what is done to them.
#[derive(Debug)]
pub struct Session<M> {
    machine: M,
    /// All that there were when it began.
    known: Sites,
    /// Those of them that are online.
    sites: Sites,
    journal: Journal,
    threads: BTreeMap<ThreadId, Watched>,
    placed: Option<Question>,
}

impl<M: Machine> Session<M> {
    /// Without any thread.
    pub fn new(machine: M, sites: Sites, journal: Journal) -> Self {
        let known = sites.clone();
        Self { machine, known, sites, journal, threads: BTreeMap::new(), placed: None }
    }

    /// The threads that are watched.
    pub fn threads(&self) -> impl Iterator<Item = (&ThreadId, &Watched)> {
        self.threads.iter()
    }

    /// Where threads may be placed: on CPUs that were online when [`watch`](Self::watch) was called last.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Watches these threads and no others; those are new that were not watched before.
    pub fn watch(&mut self, found: &[Thread]) {
        // Where nobody tells, all are taken to be online still; the kernel refuses those that are not.
        if let Ok(online) = self.machine.online() {
            self.sites = self.known.within(&online);
        }
        let ids: BTreeSet<ThreadId> = found.iter().map(|thread| thread.id).collect();
        self.threads.retain(|id, _| ids.contains(id));
        for thread in found {
            if !self.threads.contains_key(&thread.id)
                && let Ok(mask) = self.machine.allowed_of(thread.id)
            {
                let watched = self.adopt(thread, mask);
                self.threads.insert(thread.id, watched);
            }
        }
    }

    fn adopt(&self, thread: &Thread, mask: CpuSet) -> Watched {
        let (before, standing) = match self.parent(thread.id, &mask) {
            Some(parent) => (parent.before.clone(), parent.standing.clone()),
            None => (mask, Standing::Free),
        };
        let fits = self.sites.set().difference(&before).is_empty();
        let standing = if fits { standing } else { Standing::Left("bound to fewer CPUs before") };
        let steady = Steady::new(Verdict::unknown("not looked at yet"));
        Watched { name: thread.name.clone(), steady, before, standing }
    }

    /// A new thread may run where the one that has started it was placed, which is most likely one of its process.
    fn parent(&self, thread: ThreadId, mask: &CpuSet) -> Option<&Watched> {
        let is_there = |watched: &Watched| match watched.standing {
            Standing::Placed(cpu) => one(cpu) == *mask,
            Standing::Free | Standing::Left(_) => false,
        };
        let alike = self.threads.iter().filter(|(_, watched)| is_there(watched));
        alike.min_by_key(|(id, _)| id.pid != thread.pid).map(|(_, parent)| parent)
    }

    /// Takes a look at a thread into account; whether its class has changed.
    pub fn look(&mut self, thread: ThreadId, verdict: Verdict) -> bool {
        self.threads.get_mut(&thread).is_some_and(|watched| watched.steady.look(verdict))
    }

    /// Places the threads whose class is known, or frees all of them without a policy; nothing, if it has done so already.
    /// Whether anything was changed.
    ///
    /// # Errors
    ///
    /// What kept it from noting a change: nothing was changed from there on. A thread that cannot be placed is left alone.
    pub fn place(&mut self, policy: Option<Policy>) -> io::Result<bool> {
        self.release_changed();
        let question = Question { policy, cpus: self.sites.cpus.clone(), tasks: self.tasks() };
        if self.placed.as_ref() == Some(&question) {
            return Ok(false);
        }
        let changed = match policy {
            Some(policy) => {
                let sites = assign(policy, &self.sites.sites, &self.with_sites(&question.tasks));
                let threads: Vec<ThreadId> = question.tasks.iter().map(|(id, _)| *id).collect();
                self.put(&threads, &sites)?
            }
            None => self.free(),
        };
        self.placed = Some(question);
        Ok(changed)
    }

    /// Puts each of these threads on a site, by its index. Whether anything was changed.
    ///
    /// # Errors
    ///
    /// As [`place`](Self::place).
    pub fn put(&mut self, threads: &[ThreadId], sites: &[usize]) -> io::Result<bool> {
        let mut changed = false;
        for (thread, site) in threads.iter().zip(sites) {
            changed |= self.bind(*thread, self.sites.cpus[*site])?;
        }
        Ok(changed)
    }

    /// Threads that are placed, with their class.
    pub fn tasks(&self) -> Vec<(ThreadId, Class)> {
        let tasks = self.threads.iter().filter(|(_, watched)| watched.is_task());
        tasks.map(|(id, watched)| (*id, watched.verdict().class)).collect()
    }

    fn with_sites(&self, tasks: &[(ThreadId, Class)]) -> Vec<Task> {
        let at = |id| match self.threads[id].standing {
            Standing::Placed(cpu) => self.sites.cpus.iter().position(|site| *site == cpu),
            _ => None,
        };
        tasks.iter().map(|(id, class)| Task { class: *class, at: at(id) }).collect()
    }

    fn bind(&mut self, thread: ThreadId, cpu: usize) -> io::Result<bool> {
        let Some(watched) = self.threads.get_mut(&thread) else { return Ok(false) };
        if watched.standing == Standing::Placed(cpu) {
            return Ok(false);
        }
        let during = one(cpu);
        self.journal.note(thread, &watched.before, &during)?;
        match self.machine.bind(thread, &during) {
            Ok(()) => watched.standing = Standing::Placed(cpu),
            // The next look does not find it any more.
            Err(error) if is_gone(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                watched.standing = Standing::Left("another user's: run as root to place it");
            }
            Err(_) => watched.standing = Standing::Left("the kernel refuses that CPU for it"),
        }
        Ok(true)
    }

    /// Whoever binds a thread meanwhile has reasons, but for the kernel: it lets a thread run anywhere whose CPU goes offline.
    fn release_changed(&mut self) {
        for (id, watched) in &mut self.threads {
            if let Standing::Placed(cpu) = watched.standing
                && self.machine.allowed_of(*id).is_ok_and(|now| now != one(cpu))
            {
                watched.standing = match self.sites.cpus.contains(&cpu) {
                    true => Standing::Left("bound by somebody else meanwhile"),
                    false => put_back(&self.machine, *id, &watched.before),
                };
            }
        }
    }

    /// All threads that are placed may run as before. Whether there was any.
    fn free(&mut self) -> bool {
        let mut changed = false;
        for (id, watched) in &mut self.threads {
            if matches!(watched.standing, Standing::Placed(_)) {
                changed = true;
                watched.standing = put_back(&self.machine, *id, &watched.before);
            }
        }
        changed
    }

    /// Puts all back, and ends. How many threads could not be put back; then the journal stays, for another attempt.
    ///
    /// # Errors
    ///
    /// If the journal cannot be removed.
    pub fn end(mut self) -> io::Result<usize> {
        self.release_changed();
        self.free();
        let stuck = self.threads.values().filter(|watched| watched.standing == STUCK).count();
        if stuck == 0 {
            self.journal.finish()?;
        }
        Ok(stuck)
    }
}

const STUCK: Standing = Standing::Left("it cannot be put back");

fn put_back(machine: &impl Machine, thread: ThreadId, before: &CpuSet) -> Standing {
    match machine.bind(thread, before) {
        Err(error) if !is_gone(&error) => STUCK,
        _ => Standing::Free,
    }
}

fn one(cpu: usize) -> CpuSet {
    CpuSet::from_iter([cpu])
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
