//! A trial of a job with and without siblings: its threads may run on all CPUs, or on one CPU of
//! each core, in turns.

use std::fmt;
use std::io;
use std::time::Instant;

use daiko_core::place::SiblingUse;

use crate::machine::Machine;
use crate::progress::Progress;
use crate::session::{Session, Standing};
use crate::thread::{Thread, ThreadId};

/// Rounds of both settings. If these make no difference, all six rounds lie on one side by chance
/// in 3 of 100 trials.
const ROUNDS: usize = 6;
/// A slice without progress, as on a busy machine, is as many times as long before the trial ends.
const LONGEST: usize = 25;

/// The use of siblings in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siblings {
    /// The threads may run on all CPUs.
    Used,
    /// They may run on one CPU of each core.
    Idle,
}

/// Progress with siblings, divided by progress without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The least ratio of a round.
    pub least: f64,
    /// The mean ratio.
    pub ratio: f64,
    /// The largest ratio of a round.
    pub most: f64,
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, ratio, most } = self;
        write!(
            f,
            "{ratio:.2} times the progress with one thread on each core, {least:.2} to {most:.2} in \
             {ROUNDS} rounds"
        )
    }
}

/// The slices of a trial. Every second round has the settings in reverse order, so that a drift
/// favours none.
///
/// # Examples
///
/// ```
/// use daiko_pair::advice::{Siblings, SmtTrial};
///
/// let mut trial = SmtTrial::default();
/// while let Some(siblings) = trial.next() {
///     trial.record(vec![if siblings == Siblings::Used { 3.0 } else { 2.0 }]);
/// }
/// assert!((trial.gain().unwrap().ratio - 1.5).abs() < 1e-9);
/// ```
#[derive(Clone, Debug, Default)]
pub struct SmtTrial {
    /// The rate of progress of each source in each slice.
    rates: Vec<Vec<f64>>,
}

impl SmtTrial {
    /// The setting of the next slice; `None` after the last one.
    pub fn next(&self) -> Option<Siblings> {
        (self.rates.len() < ROUNDS * 2).then(|| Self::setting(self.rates.len()))
    }

    fn setting(slice: usize) -> Siblings {
        match slice % 4 {
            0 | 3 => Siblings::Used,
            _ => Siblings::Idle,
        }
    }

    /// Records the rate of progress of each source in the next slice, in any unit per source.
    ///
    /// # Panics
    ///
    /// If the number of sources differs from that of earlier slices.
    pub fn record(&mut self, rates: Vec<f64>) {
        assert!(self.rates.iter().all(|slice| slice.len() == rates.len()), "one for each source");
        self.rates.push(rates);
    }

    /// The gain by siblings. `None` before the end, and if a slice had no progress.
    pub fn gain(&self) -> Option<Gain> {
        if self.next().is_some() {
            return None;
        }
        let sums: Vec<f64> = self.relative();
        if sums.iter().any(|sum| *sum <= 0.0) {
            return None;
        }
        let ratio = |round: usize| match Self::setting(2 * round) {
            Siblings::Used => sums[2 * round] / sums[2 * round + 1],
            Siblings::Idle => sums[2 * round + 1] / sums[2 * round],
        };
        let ratios: Vec<f64> = (0..ROUNDS).map(ratio).collect();
        Some(Gain {
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio: ratios.iter().sum::<f64>() / ROUNDS as f64,
            most: ratios.iter().copied().fold(0.0, f64::max),
        })
    }

    /// The progress of each slice: the sum over the sources, each relative to its own mean.
    fn relative(&self) -> Vec<f64> {
        let slices = self.rates.len() as f64;
        let mean = |source| self.rates.iter().map(|slice| slice[source]).sum::<f64>() / slices;
        let means: Vec<f64> = (0..self.rates[0].len()).map(mean).collect();
        let share = |(rate, mean): (&f64, &f64)| if *mean > 0.0 { rate / mean } else { 0.0 };
        self.rates.iter().map(|slice| slice.iter().zip(&means).map(share).sum()).collect()
    }
}

/// Tries a job with and without siblings. `threads` finds the threads of the job; `slice` waits for
/// the end of a slice, or of a part of it if there was no progress, and returns false to stop. All
/// threads may run on all CPUs again afterwards, also those that the job starts meanwhile.
///
/// # Errors
///
/// If a change cannot be recorded. The inner error is the reason why nothing was measured.
pub fn run<M: Machine>(
    session: &mut Session<M>,
    sources: &[Progress],
    threads: &mut dyn FnMut() -> Vec<Thread>,
    slice: &mut dyn FnMut(&mut Session<M>) -> bool,
) -> io::Result<Result<Gain, String>> {
    let measured = measure(session, sources, threads, slice);
    set(session, Siblings::Used, threads)?;
    measured
}

fn measure<M: Machine>(
    session: &mut Session<M>,
    sources: &[Progress],
    threads: &mut dyn FnMut() -> Vec<Thread>,
    slice: &mut dyn FnMut(&mut Session<M>) -> bool,
) -> io::Result<Result<Gain, String>> {
    let mut trial = SmtTrial::default();
    let counted = ids(&threads());
    while let Some(siblings) = trial.next() {
        set(session, siblings, threads)?;
        if siblings == Siblings::Idle && !has_placed(session) {
            return Ok(Err("none of its threads can be bound".into()));
        }
        match rates(sources, &mut || slice(session)) {
            Ok(rates) => trial.record(rates),
            Err(why) => return Ok(Err(why)),
        }
    }
    let counts_threads = sources.iter().any(|source| matches!(source, Progress::Instructions(_)));
    if counts_threads && ids(&threads()) != counted {
        return Ok(Err("threads came and went, and their instructions were not counted".into()));
    }
    Ok(trial.gain().ok_or_else(|| "no progress was made in a slice of the trial".into()))
}

/// Returns the rate of each source in a slice, or the reason why there is none.
fn rates(sources: &[Progress], slice: &mut dyn FnMut() -> bool) -> Result<Vec<f64>, String> {
    let read = || -> Result<Vec<f64>, String> {
        let readings: io::Result<_> = sources.iter().map(Progress::read).collect();
        readings.map_err(|error| format!("progress cannot be read: {error}"))
    };
    let (start, before) = (Instant::now(), read()?);
    for _ in 0..LONGEST {
        if !slice() {
            return Err("the job, or the observation, ended before the trial".into());
        }
        let (seconds, after) = (start.elapsed().as_secs_f64(), read()?);
        if after != before {
            let rate = |(before, after): (&f64, &f64)| (after - before) / seconds;
            return Ok(before.iter().zip(&after).map(rate).collect());
        }
    }
    Err("no progress was made in a slice of the trial".into())
}

fn ids(threads: &[Thread]) -> Vec<ThreadId> {
    threads.iter().map(|thread| thread.id).collect()
}

/// Lets all threads of the job use siblings, or none of them.
fn set<M: Machine>(
    session: &mut Session<M>,
    siblings: Siblings,
    threads: &mut dyn FnMut() -> Vec<Thread>,
) -> io::Result<()> {
    let policy = (siblings == Siblings::Idle).then_some(SiblingUse::NoSmt);
    // The second time for threads that were started during the first, with their previous affinity.
    for _ in 0..2 {
        session.watch(&threads())?;
        session.place(policy)?;
    }
    Ok(())
}

fn has_placed<M: Machine>(session: &Session<M>) -> bool {
    session.threads().any(|(_, watched)| matches!(watched.standing(), Standing::Placed(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use crate::machine::testing::{Described, thread};
    use crate::session::Sites;
    use daiko_sys::topology::described::Described as Shape;
    use std::cell::Cell;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use tempfile::TempDir;

    /// A job of two threads on two cores with two siblings each, and its progress in a file.
    struct Ground {
        folder: TempDir,
        machine: Described,
        session: Session<Described>,
    }

    fn found(machine: &Described) -> Vec<Thread> {
        let thread = |id: &ThreadId| Thread { id: *id, name: "t".into(), ticks: 1 };
        machine.masks.borrow().keys().map(thread).collect()
    }

    impl Ground {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
            let machine = Described::with(&[thread(1, 1), thread(1, 2)], &"0-3".parse().unwrap());
            let sites = Sites::of(&Shape::parse("1x2x2").unwrap().topology().unwrap(), None);
            let journal = Journal::create(&folder.path().join("journals")).unwrap();
            let session = Session::new(machine.clone(), sites, journal);
            fs::write(folder.path().join("progress"), [0; 8]).unwrap();
            Self { folder, machine, session }
        }

        /// Runs a trial. `slice` does the job's work, with the CPUs that its first thread has.
        fn run(&mut self, mut slice: impl FnMut(&Described, &str) -> u64) -> Result<Gain, String> {
            let file = self.folder.path().join("progress");
            let sources = [Progress::declared(&file).unwrap()];
            let machine = self.machine.clone();
            let mut wait = |_: &mut Session<Described>| {
                add(&file, slice(&machine, &machine.mask(thread(1, 1))));
                true
            };
            let mut threads = || found(&machine);
            run(&mut self.session, &sources, &mut threads, &mut wait).unwrap()
        }

        fn are_all_free(&self) -> bool {
            self.machine.masks.borrow().values().all(|mask| mask.to_string() == "0-3")
        }
    }

    fn add(file: &Path, count: u64) {
        let word = fs::read(file).unwrap().try_into().unwrap();
        fs::write(file, (u64::from_ne_bytes(word) + count).to_ne_bytes()).unwrap();
    }

    #[test]
    fn threads_have_all_cpus_or_one_of_each_core_in_turns() {
        let mut ground = Ground::new();
        let mut masks = Vec::new();
        let _ = ground.run(|_, mask| {
            masks.push(mask.to_owned());
            1
        });
        let round = ["0-3", "0-1", "0-1", "0-3"];
        assert_eq!(masks, round.repeat(ROUNDS / 2));
        assert!(ground.are_all_free());
    }

    #[test]
    fn a_job_without_progress_has_no_gain() {
        let mut ground = Ground::new();
        assert!(ground.run(|_, _| 0).unwrap_err().contains("no progress"));
        assert!(ground.are_all_free());
    }

    #[test]
    fn a_slice_without_progress_is_prolonged() {
        let mut waits = 0;
        let mut ground = Ground::new();
        let gain = ground.run(|_, _| {
            waits += 1;
            u64::from(waits % LONGEST == 0)
        });
        assert!(gain.is_ok());
        assert_eq!(waits, 2 * ROUNDS * LONGEST);
    }

    #[test]
    fn a_trial_that_is_stopped_restores_all_threads() {
        let mut ground = Ground::new();
        let machine = ground.machine.clone();
        let sources = [Progress::declared(&ground.folder.path().join("progress")).unwrap()];
        let mut slices = 0..2;
        let mut slice = |_: &mut Session<Described>| slices.next().is_some();
        let ended =
            run(&mut ground.session, &sources, &mut || found(&machine), &mut slice).unwrap();
        assert!(ended.unwrap_err().contains("ended before"));
        assert!(ground.are_all_free());
    }

    /// Threads are started in slices, and behind the back of the search for threads.
    #[test]
    fn threads_that_the_job_starts_meanwhile_are_not_confined() {
        let mut ground = Ground::new();
        let file = ground.folder.path().join("progress");
        let (machine, next) = (ground.machine.clone(), Cell::new(10));
        let start = || {
            // It is younger than the session.
            let child = ThreadId { pid: 1, tid: next.replace(next.get() + 1), start: u64::MAX };
            machine.start(thread(1, 1), child);
        };
        let mut threads = || {
            let found = found(&machine);
            start();
            found
        };
        let mut slice = |_: &mut Session<Described>| {
            let masks = machine.masks.borrow().clone();
            let parent = &masks[&thread(1, 1)];
            assert!(masks.values().all(|mask| mask == parent), "{masks:?}");
            start();
            add(&file, 1);
            true
        };
        let sources = [Progress::declared(&file).unwrap()];
        run(&mut ground.session, &sources, &mut threads, &mut slice).unwrap().unwrap();
        ground.session.end().unwrap();
        assert!(machine.masks.borrow().values().all(|mask| mask.to_string() == "0-3"));
    }

    #[test]
    fn threads_that_are_bound_already_are_left_alone_and_not_tried() {
        let mut ground = Ground::new();
        for tid in [1, 2] {
            ground.machine.set(thread(1, tid), &"2".parse().unwrap());
        }
        assert!(ground.run(|_, _| 1).unwrap_err().contains("can be bound"));
        assert!(ground.machine.masks.borrow().values().all(|mask| mask.to_string() == "2"));
    }

    /// A trial with these rates with and without siblings.
    fn gain(rates: [[f64; 2]; ROUNDS]) -> Option<Gain> {
        let mut trial = SmtTrial::default();
        let mut slice = 0;
        while let Some(siblings) = trial.next() {
            assert_eq!(trial.gain(), None, "before the end");
            let [used, idle] = rates[slice / 2];
            trial.record(vec![if siblings == Siblings::Used { used } else { idle }, 0.0]);
            slice += 1;
        }
        trial.gain()
    }

    #[test]
    fn the_range_has_the_rounds_that_differ_most() {
        let mut rates = [[3.0, 2.0]; ROUNDS];
        (rates[0], rates[1]) = ([2.0, 2.0], [4.0, 2.0]);
        let gain = gain(rates).unwrap();
        assert_eq!((gain.least, gain.most), (1.0, 2.0));
        assert!((gain.ratio - 1.5).abs() < 1e-9, "{gain:?}");
        assert_eq!(self::gain([[1.0, 0.0]; ROUNDS]), None);
    }
}
