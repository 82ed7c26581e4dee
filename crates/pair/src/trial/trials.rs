//! Trials of running threads.

use std::collections::BTreeMap;
use std::io;

use super::{Best, Trial};
use crate::Class;
use crate::class::{ClassSource, Classification};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::session::{Session, Standing};
use crate::thread::ThreadId;

/// Largest number of observations between two trials, reached if threads come and go all the time.
const RAREST: u32 = 64;

/// The threads of the last trial, and its success.
#[derive(Debug)]
pub struct Trials {
    /// Declared progress by process.
    declared: BTreeMap<u32, Progress>,
    tried: Vec<ThreadId>,
    /// True while a pairing of these threads is in force.
    decided: bool,
    /// Observations until the next trial.
    wait: u32,
    /// The value of `wait` after the next trial.
    rest: u32,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Tried {
    /// The best pairing has just been put in force.
    Now,
    /// The pairing of an earlier trial is still in force.
    Before,
    /// No pairing was chosen: none can be tried, none is better than the rest, or a thread has
    /// ended meanwhile.
    Nothing,
    /// No progress can be measured: the reason with the remedy.
    Unavailable(String),
}

impl Trials {
    /// Starts with the counts that processes maintain themselves.
    pub fn new(declared: BTreeMap<u32, Progress>) -> Self {
        Self { declared, tried: Vec::new(), decided: false, wait: 0, rest: 0 }
    }

    /// Forgets the last decision, which is not in force any more.
    pub fn forget(&mut self) {
        (self.tried, self.decided) = (Vec::new(), false);
    }

    /// Tries pairings of the threads that `ran` since the last observation, if they differ from
    /// those of the last trial. `slice` waits for the end of a slice and returns false to stop.
    ///
    /// # Errors
    ///
    /// If a change cannot be recorded.
    pub fn run<M: Machine>(
        &mut self,
        session: &mut Session<M>,
        ran: &[ThreadId],
        slice: &mut dyn FnMut(&mut Session<M>) -> bool,
    ) -> io::Result<Tried> {
        let mut threads = runners(session, ran);
        let waits = self.wait > 0;
        self.wait = self.wait.saturating_sub(1);
        // A subset is no difference: the missing threads may only sleep.
        if waits || threads.iter().all(|id| self.tried.contains(id)) {
            return Ok(if self.decided { Tried::Before } else { Tried::Nothing });
        }
        (self.wait, self.rest) = (self.rest, (self.rest * 2).clamp(1, RAREST));
        self.forget();
        let seed = threads.iter().map(|id| u64::from(id.tid)).sum();
        let sites = session.sites().sites().to_vec();
        if Trial::new(threads.len(), &sites, seed).is_none() {
            return Ok(Tried::Nothing);
        }
        let counted = match self.counted(&threads) {
            Ok(counted) => counted,
            Err(why) => return Ok(Tried::Unavailable(why)),
        };
        threads.retain(|id| session.admit(*id));
        let Some(trial) = Trial::new(threads.len(), &sites, seed) else {
            return Ok(Tried::Nothing);
        };
        let source = |id: &ThreadId| counted.get(id).unwrap_or_else(|| &self.declared[&id.pid]);
        let sources: Vec<&Progress> = threads.iter().map(source).collect();
        let Some(trial) = run(trial, session, &threads, &sources, slice)? else {
            return Ok(Tried::Nothing);
        };
        self.tried = threads;
        let Some(best) = trial.best() else { return Ok(Tried::Nothing) };
        session.put(&self.tried, &best.pairing)?;
        session.keep(&self.tried, &classification(&best));
        self.decided = true;
        Ok(Tried::Now)
    }

    /// Instruction counters for all threads without a declared count.
    fn counted(&self, threads: &[ThreadId]) -> Result<BTreeMap<ThreadId, Progress>, String> {
        let undeclared = threads.iter().filter(|id| !self.declared.contains_key(&id.pid));
        let count = |id: &ThreadId| match Progress::instructions(id.tid) {
            Ok(progress) => Ok((*id, progress)),
            Err(error) => {
                Err(format!("{error}; or declare the counter of process {} (--progress)", id.pid))
            }
        };
        undeclared.map(count).collect()
    }
}

fn classification(best: &Best) -> Classification {
    let gain = best.gain * 100.0;
    let why =
        format!("of the pairings that were tried this one makes the most progress, by {gain:.1}%");
    let (source, confidence) = (ClassSource::Trial, best.confidence);
    Classification { class: Class::Unknown, source, confidence, why }
}

/// The threads that may be placed.
fn runners<M: Machine>(session: &Session<M>, ran: &[ThreadId]) -> Vec<ThreadId> {
    let may = |id: &ThreadId| {
        let watched = session.watched(*id);
        watched.is_some_and(|watched| !matches!(watched.standing(), Standing::Left(_)))
    };
    let mut threads: Vec<ThreadId> = ran.iter().copied().filter(may).collect();
    threads.sort_unstable();
    threads
}

/// Runs all slices of a trial; `None` if a thread has ended meanwhile or `slice` returned false.
fn run<M: Machine>(
    mut trial: Trial,
    session: &mut Session<M>,
    threads: &[ThreadId],
    sources: &[&Progress],
    slice: &mut dyn FnMut(&mut Session<M>) -> bool,
) -> io::Result<Option<Trial>> {
    let read = || sources.iter().map(|source| source.read()).collect::<io::Result<Vec<f64>>>().ok();
    while let Some(pairing) = trial.next().cloned() {
        session.put(threads, &pairing)?;
        let before = read();
        let goes_on = slice(session);
        let Some((before, after)) = before.zip(read()).filter(|_| goes_on) else { return Ok(None) };
        trial.record(before.iter().zip(after).map(|(before, after)| after - before).collect());
    }
    Ok(Some(trial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Classification;
    use crate::journal::Journal;
    use crate::machine::testing::{Described, thread};
    use crate::session::Sites;
    use crate::thread::Thread;
    use daiko_sys::topology::described::Described as Shape;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{FileExt, PermissionsExt};
    use tempfile::TempDir;

    /// Four processes on two cores with two siblings each, each counting up a file; 1 and 3 do well
    /// together.
    struct Ground {
        folder: TempDir,
        machine: Described,
        session: Session<Described>,
        ids: Vec<ThreadId>,
    }

    impl Ground {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
            let ids: Vec<ThreadId> = (1..=4).map(|pid| thread(pid, pid)).collect();
            let machine = Described::with(&ids, &"0-3".parse().unwrap());
            let sites = Sites::of(&Shape::parse("1x2x2").unwrap().topology().unwrap(), None);
            let journal = Journal::create(&folder.path().join("journals")).unwrap();
            let mut session = Session::new(machine.clone(), sites, journal);
            let found = |id: &ThreadId| Thread { id: *id, name: "t".into(), ticks: 1 };
            session.watch(&ids.iter().map(found).collect::<Vec<_>>()).unwrap();
            Self { folder, machine, session, ids }
        }

        fn file(&self, pid: u32) -> std::path::PathBuf {
            self.folder.path().join(pid.to_string())
        }

        fn declared(&self) -> BTreeMap<u32, Progress> {
            let declare = |id: &ThreadId| {
                fs::write(self.file(id.pid), 0_u64.to_ne_bytes()).unwrap();
                (id.pid, Progress::declared(&self.file(id.pid)).unwrap())
            };
            self.ids.iter().map(declare).collect()
        }

        fn core(&self, pid: u32) -> usize {
            let mask = self.machine.mask(thread(pid, pid));
            core(&mask)
        }

        fn run(&mut self, trials: &mut Trials) -> Tried {
            let (session, ids) = (&mut self.session, self.ids.clone());
            let (machine, folder) = (self.machine.clone(), self.folder.path().to_owned());
            let core = |pid: u32| core(&machine.mask(thread(pid, pid)));
            let mut slice = |_: &mut Session<Described>| {
                let step = if core(1) == core(3) { 3000 } else { 2000 };
                for pid in 1..=4_u32 {
                    let file =
                        File::options().read(true).write(true).open(folder.join(pid.to_string()));
                    let (file, mut word) = (file.unwrap(), [0; 8]);
                    file.read_exact_at(&mut word, 0).unwrap();
                    let next = u64::from_ne_bytes(word) + step / u64::from(pid);
                    file.write_all_at(&next.to_ne_bytes(), 0).unwrap();
                }
                true
            };
            trials.run(session, &ids, &mut slice).unwrap()
        }
    }

    /// The core with these CPUs: n and n + 2.
    fn core(mask: &str) -> usize {
        ["0,2", "1,3"].iter().position(|core| *core == mask).expect(mask)
    }

    #[test]
    fn the_pairing_with_the_most_progress_is_kept() {
        let mut ground = Ground::new();
        let mut trials = Trials::new(ground.declared());
        assert_eq!(ground.run(&mut trials), Tried::Now);
        assert_eq!(ground.core(1), ground.core(3));
        assert_eq!(ground.run(&mut trials), Tried::Before);
        let sleeper = ground.ids.pop().unwrap();
        assert_eq!(ground.run(&mut trials), Tried::Before, "{sleeper:?} sleeps");
        assert_eq!(ground.core(1), ground.core(3));
        assert_eq!(ground.session.end().unwrap().refused, 0);
        assert!(ground.machine.masks.borrow().values().all(|mask| mask.len() == 4));
    }

    #[test]
    fn another_thread_is_tried_with_the_rest() {
        let mut ground = Ground::new();
        let mut trials = Trials::new(ground.declared());
        let last = ground.ids.pop().unwrap();
        assert_eq!(ground.run(&mut trials), Tried::Now);
        assert_eq!(ground.machine.mask(last), "0-3");
        ground.ids.push(last);
        assert_eq!(ground.run(&mut trials), Tried::Now);
        assert_eq!(ground.core(1), ground.core(3));
        assert_eq!(ground.core(2), ground.core(4));
    }

    #[test]
    fn threads_that_come_and_go_are_tried_ever_more_rarely() {
        let mut ground = Ground::new();
        let mut trials = Trials::new(ground.declared());
        let mut tried = Vec::new();
        for look in 0..20 {
            let mut slices = 0;
            let mut slice = |_: &mut Session<Described>| {
                slices += 1;
                true
            };
            let some = &ground.ids[look % 2..look % 2 + 3];
            // No process counts up anything.
            assert_eq!(trials.run(&mut ground.session, some, &mut slice).unwrap(), Tried::Nothing);
            tried.extend((slices > 0).then_some(look));
        }
        assert_eq!(tried, [0, 1, 4, 7, 12]);
    }

    #[test]
    fn the_source_of_a_decision_is_known_until_the_next_decision() {
        let mut ground = Ground::new();
        let mut trials = Trials::new(ground.declared());
        let source = |ground: &Ground| {
            ground.session.watched(ground.ids[0]).unwrap().classification().source
        };
        assert_eq!(ground.run(&mut trials), Tried::Now);
        assert_eq!(source(&ground), ClassSource::Trial);
        let why = &ground.session.watched(ground.ids[0]).unwrap().classification().why;
        assert!(why.contains("makes the most progress"), "{why}");
        ground.session.place(None).unwrap();
        assert_eq!(source(&ground), ClassSource::Undetermined);
        assert!(ground.machine.masks.borrow().values().all(|mask| mask.len() == 4));
        trials.forget();
        assert_eq!(ground.run(&mut trials), Tried::Now);
    }

    #[test]
    fn a_trial_that_is_not_to_go_on_decides_nothing() {
        let mut ground = Ground::new();
        let mut trials = Trials::new(ground.declared());
        let tried = trials.run(&mut ground.session, &ground.ids, &mut |_| false).unwrap();
        assert_eq!(tried, Tried::Nothing);
        assert_eq!(trials.run(&mut ground.session, &[], &mut |_| true).unwrap(), Tried::Nothing);
        assert_eq!(ground.run(&mut trials), Tried::Now, "it is tried again");
    }

    #[test]
    fn without_progress_it_says_why() {
        let mut ground = Ground::new();
        let mut trials = Trials::new(BTreeMap::new());
        // Nothing counts for synthetic threads.
        let Tried::Unavailable(why) = ground.run(&mut trials) else { panic!("no count is known") };
        assert!(why.contains("--progress"), "{why}");
    }

    #[test]
    fn a_thread_that_was_left_alone_is_not_tried() {
        let mut ground = Ground::new();
        let mut trials = Trials::new(ground.declared());
        let own = ground.ids[3];
        ground.session.look(own, Classification::declared(crate::Class::Stall));
        ground.machine.refused.borrow_mut().push(own);
        ground.session.place(Some(daiko_core::place::SiblingUse::NoSmt)).unwrap();
        assert_eq!(ground.run(&mut trials), Tried::Now);
        assert_eq!(ground.machine.mask(own), "0-3");
    }

    #[test]
    fn a_thread_that_starts_others_is_not_tried() {
        let mut ground = Ground::new();
        let mut trials = Trials::new(ground.declared());
        *ground.machine.starts.borrow_mut() = Some(BTreeMap::new());
        assert_eq!(ground.run(&mut trials), Tried::Nothing, "they may all be starting threads");
        let (parent, machine) = (ground.ids[3], ground.machine.clone());
        machine.start(parent, thread(4, 90));
        assert_eq!(ground.run(&mut trials), Tried::Now, "of the rest");
        assert_eq!(machine.mask(parent), "0-3");
    }
}
