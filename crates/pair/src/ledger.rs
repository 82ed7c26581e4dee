//! All changes of a session, and each thread's previous affinity.

use std::collections::BTreeMap;
use std::fmt;

use daiko_sys::cpu::CpuSet;

use crate::machine::{Machine, is_gone};
use crate::thread::ThreadId;

/// A change of a thread's affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The thread.
    pub thread: ThreadId,
    /// Its affinity before the session.
    pub before: CpuSet,
    /// Its new affinity; equal to `before` for a thread that is left alone.
    pub during: CpuSet,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread: ThreadId { pid, tid, start }, before, during } = self;
        write!(f, "{pid} {tid} {start} {before} {during}")
    }
}

impl Change {
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&str> = str::from_utf8(line).ok()?.strip_suffix('\n')?.split(' ').collect();
        let [pid, tid, start, before, during] = fields[..] else { return None };
        let thread =
            ThreadId { pid: pid.parse().ok()?, tid: tid.parse().ok()?, start: start.parse().ok()? };
        Some(Self { thread, before: before.parse().ok()?, during: during.parse().ok()? })
    }
}

/// The changes of a session, by thread.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// Start time of the session, in the unit of [`ThreadId::start`].
    since: u64,
    noted: BTreeMap<ThreadId, Noted>,
}

#[derive(Clone, Debug)]
struct Noted {
    before: CpuSet,
    /// Each affinity that the session has given it.
    during: Vec<CpuSet>,
}

/// The cause of a thread's current affinity.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cause<'a> {
    /// The session set it, or led the kernel to set it; the value is the previous affinity.
    Session(&'a CpuSet),
    /// Another party has changed the session's setting.
    Foreign,
    /// Independent of the session.
    Own,
}

/// The outcome of putting threads back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Threads with their previous affinity again.
    pub threads: usize,
    /// Threads left alone because another party has changed them since.
    pub changed: usize,
    /// Threads for which the kernel refuses the change.
    pub refused: usize,
}

impl Ledger {
    pub(crate) fn new(since: u64) -> Self {
        Self { since, noted: BTreeMap::new() }
    }

    pub(crate) fn has(&self, change: &Change) -> bool {
        let Change { thread, before, during } = change;
        self.noted.get(thread).is_some_and(|own| before == during || own.during.contains(during))
    }

    /// Adds a change. A thread is put back to its affinity before its first change.
    pub(crate) fn add(&mut self, Change { thread, before, during }: Change) {
        let own = self.noted.entry(thread);
        let own = own.or_insert_with(|| Noted { before, during: Vec::new() });
        if during != own.before && !own.during.contains(&during) {
            own.during.push(during);
        }
    }

    /// The cause of the affinity `now` of `thread`; `online` are the CPUs that are online.
    pub(crate) fn cause(
        &self,
        thread: ThreadId,
        now: &CpuSet,
        online: Option<&CpuSet>,
    ) -> Cause<'_> {
        let Some(own) = self.noted.get(&thread) else {
            return self.inherited(thread, now).map_or(Cause::Own, Cause::Session);
        };
        // The kernel lets a thread run anywhere once its last CPU goes offline.
        let is_stranded = || {
            online.is_some_and(|on| own.during.iter().any(|cpus| cpus.intersection(on).is_empty()))
        };
        // A thread of a control group with CPUs of its own loses a CPU that goes offline.
        let is_cut =
            || online.is_some_and(|on| own.during.iter().any(|cpus| cpus.intersection(on) == *now));
        match own {
            _ if own.before == *now => Cause::Own,
            _ if own.during.contains(now) || is_cut() => Cause::Session(&own.before),
            _ if is_stranded() || self.has_executed(thread, now) => Cause::Session(&own.before),
            _ => Cause::Foreign,
        }
    }

    /// Handles `execve`: the calling thread, any thread of the process, becomes the first thread.
    fn has_executed(&self, thread: ThreadId, now: &CpuSet) -> bool {
        thread.tid == thread.pid
            && self.of_process(thread.pid).any(|record| record.during.contains(now))
    }

    /// The previous affinity of a thread from which this thread has inherited: most likely one of
    /// its process.
    fn inherited(&self, thread: ThreadId, now: &CpuSet) -> Option<&CpuSet> {
        let all = self.of_process(thread.pid).chain(self.noted.values());
        let mut alike = all.filter(|record| record.during.contains(now));
        // A thread older than the session has inherited nothing from it.
        if thread.start < self.since { None } else { alike.next().map(|record| &record.before) }
    }

    fn of_process(&self, pid: u32) -> impl Iterator<Item = &Noted> {
        let first = ThreadId { pid, tid: 0, start: 0 };
        let last = ThreadId { pid, tid: u32::MAX, start: u64::MAX };
        self.noted.range(first..=last).map(|(_, noted)| noted)
    }

    /// Puts all threads back, including threads started meanwhile, until no such thread is left.
    pub(crate) fn undo(&self, machine: &impl Machine) -> PutBack {
        let threads: Vec<ThreadId> = self.noted.keys().copied().collect();
        let pids: Vec<u32> = threads.iter().map(|thread| thread.pid).collect();
        self.put_back(machine, || [&threads[..], &machine.families(&pids)].concat())
    }

    /// Puts the threads of a process and its descendants back that have inherited their affinity,
    /// until no such thread is left.
    pub(crate) fn put_back_inheritors(&self, machine: &impl Machine, pid: u32) {
        self.put_back(machine, || {
            let mut family = machine.families(&[pid]);
            family.retain(|thread| !self.noted.contains_key(thread));
            family
        });
    }

    fn put_back(&self, machine: &impl Machine, threads: impl Fn() -> Vec<ThreadId>) -> PutBack {
        // Bounded, as a program might bind its threads like the session, again and again.
        const MOST: usize = 8;
        let mut all = PutBack::default();
        for _ in 0..MOST {
            let pass = self.pass(machine, threads());
            all = PutBack { threads: all.threads + pass.threads, ..pass };
            if pass.threads == 0 {
                break;
            }
        }
        all
    }

    fn pass(&self, machine: &impl Machine, mut threads: Vec<ThreadId>) -> PutBack {
        threads.sort_unstable();
        threads.dedup();
        let online = machine.online().ok();
        let mut pass = PutBack::default();
        for thread in threads {
            let Ok(now) = machine.allowed_of(thread) else { continue };
            match self.cause(thread, &now, online.as_ref()) {
                Cause::Session(before) => pass.count(machine.bind(thread, before)),
                Cause::Foreign => pass.changed += 1,
                Cause::Own => {}
            }
        }
        pass
    }
}

impl PutBack {
    fn count(&mut self, bound: std::io::Result<()>) {
        match bound {
            Ok(()) => self.threads += 1,
            Err(error) if is_gone(&error) => {}
            Err(_) => self.refused += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{Described, thread};

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn change(thread: ThreadId, before: &str, during: &str) -> Change {
        Change { thread, before: set(before), during: set(during) }
    }

    fn ledger(since: u64, changes: &[(ThreadId, &str, &str)]) -> Ledger {
        let mut ledger = Ledger::new(since);
        changes
            .iter()
            .for_each(|(thread, before, during)| ledger.add(change(*thread, before, during)));
        ledger
    }

    #[test]
    fn the_last_change_of_a_thread_has_a_cause() {
        let (first, second) = (thread(7, 1), thread(7, 2));
        let ledger = ledger(0, &[(first, "0-3", "0"), (first, "0-3", "2"), (second, "3", "3")]);
        let before = set("0-3");
        for now in ["0", "2"] {
            assert_eq!(ledger.cause(first, &set(now), None), Cause::Session(&before), "{now}");
        }
        assert_eq!(ledger.cause(first, &set("1"), None), Cause::Foreign);
        assert_eq!(ledger.cause(first, &before, None), Cause::Own);
        assert_eq!(ledger.cause(second, &set("3"), None), Cause::Own, "it was left as it is");
        assert!(ledger.has(&change(first, "0-3", "2")) && !ledger.has(&change(first, "0-3", "3")));
        assert!(ledger.has(&change(second, "3", "3")));
    }

    #[test]
    fn an_inherited_mask_is_of_the_same_process_and_of_the_time_of_the_session() {
        let (first, second) = (thread(7, 1), thread(8, 2));
        let ledger = ledger(50, &[(first, "0-3", "0"), (second, "0-1", "0")]);
        let start = |pid, start| ThreadId { pid, tid: 9, start };
        let now = set("0");
        let cause = |thread| ledger.cause(thread, &now, None);
        assert_eq!(cause(start(7, 50)), Cause::Session(&set("0-3")));
        assert_eq!(cause(start(8, 50)), Cause::Session(&set("0-1")));
        assert_eq!(cause(start(8, 49)), Cause::Own, "it has bound itself");
        assert_eq!(ledger.cause(start(7, 50), &set("1"), None), Cause::Own);
    }

    #[test]
    fn a_thread_of_an_offline_cpu_was_changed_by_the_kernel() {
        let thread_id = thread(7, 1);
        let ledger = ledger(0, &[(thread_id, "0-1", "1")]);
        let now = set("0-3");
        let cause = |online: &CpuSet| ledger.cause(thread_id, &now, Some(online));
        assert_eq!(cause(&set("0,2-3")), Cause::Session(&set("0-1")));
        assert_eq!(cause(&set("0-3")), Cause::Foreign);
    }

    #[test]
    fn a_thread_that_loses_one_of_two_cpus_was_changed_by_the_kernel() {
        let thread_id = thread(7, 1);
        let ledger = ledger(0, &[(thread_id, "0-7", "1,5")]);
        let cause =
            |now| ledger.cause(thread_id, &set(now), Some(&set("0-4,6-7"))) == Cause::Foreign;
        assert_eq!(["1", "5", "1-2"].map(cause), [false, true, true]);
    }

    #[test]
    fn a_thread_that_executes_a_program_becomes_the_first_thread() {
        let (first, second) = (thread(7, 7), thread(7, 8));
        let ledger =
            ledger(0, &[(first, "0-3", "0"), (second, "0-3", "1"), (thread(9, 9), "0-3", "2")]);
        assert_eq!(ledger.cause(first, &set("1"), None), Cause::Session(&set("0-3")));
        assert_eq!(ledger.cause(second, &set("0"), None), Cause::Foreign);
        assert_eq!(ledger.cause(first, &set("2"), None), Cause::Foreign, "of another process");
    }

    #[test]
    fn a_thread_that_was_started_meanwhile_is_put_back_too() {
        let [parent, child] = [1, 2].map(|tid| thread(7, tid));
        let ledger = ledger(0, &[(parent, "0-3", "1")]);
        let machine = Described::with(&[parent, child], &set("1"));
        let masks = || [parent, child].map(|thread| machine.mask(thread));
        ledger.put_back_inheritors(&machine, 7);
        assert_eq!(masks(), ["1", "0-3"]);
        machine.set(child, &set("1"));
        assert_eq!(ledger.undo(&machine), PutBack { threads: 2, ..PutBack::default() });
        assert_eq!(masks(), ["0-3", "0-3"]);
    }
}
