//! A recorded trace, replayed under both policies.
//!
//! A trace records only one course of events. Under another policy, tasks would be elsewhere, so
//! other CPUs would wake them and other CPUs would be idle. A replay therefore assumes:
//!
//! 1. *Wake-ups* are the same, at the same times, in the same order. No policy makes them faster or
//!    slower (open loop).
//! 2. *Idle CPUs* are those of the trace. Tasks that were placed elsewhere are assumed to be too
//!    short to matter.
//! 3. *Waking CPUs*: the interrupt follows the replayed task with the lag of the trace. That is the
//!    number N for which the waking CPU is the CPU where the task ran N wake-ups before, at the
//!    most wake-ups of the task's whole trace; a task that moves rarely has the lag of all tasks.
//!    Other wake-ups have the smallest N that explains them. A waking CPU that nothing explains (a
//!    timer, another process) is kept. So is that of a task with the same waking CPU in all of its
//!    past (no steering).
//! 4. *Other moves*: a task that last ran where it was not placed was moved by a balancer, and is
//!    moved there in the replay as well.
//!
//! Where lags explain less than 95% of the wake-ups that tell, and it matters whether a waking CPU
//! has the smallest N that explains it, or the largest, the replay tells a range in place of
//! counts. The truth may lie outside, where the lag changes with time.
//!
//! If a trace of the simulator is replayed under the policy by which it was recorded, the result is
//! its own counts.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;

use daiko_core::place::{BOUND, Follow, existing};

use super::tally::{Account, SPANS, WakeTally};
use super::trace::{Reader, TraceError, Wake};
use crate::kit::format;

/// Number of wake-ups to look back for the interrupt: more than the longest settling in the paper.
pub const MOST_LAG: usize = 12;
/// Largest number of tasks, which bounds the memory of a replay.
const MOST_TASKS: usize = 65_536;
const NOWHERE: u16 = u16::MAX;

/// Number of wake-ups that tell a task's own lag: those at which the CPUs of its past differ.
const ENOUGH: u32 = 32;
/// Least part of the telling wake-ups that lags explain.
const STEADY: f64 = 0.95;

/// The way to find the distance of the interrupt behind its task at a wake-up, among those that
/// explain the waking CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    /// The task's lag, else the smallest.
    Lag,
    /// The smallest.
    Nearest,
    /// The largest.
    Farthest,
}

impl Law {
    const ALL: [Law; 3] = [Law::Lag, Law::Nearest, Law::Farthest];

    /// Returns the distance; `None`: nothing explains the waking CPU.
    fn behind(self, lag: usize, explaining: &[bool; MOST_LAG + 1]) -> Option<usize> {
        match self {
            Law::Lag if explaining[lag] => Some(lag),
            Law::Lag | Law::Nearest => explaining.iter().position(|&explains| explains),
            Law::Farthest => explaining.iter().rposition(|&explains| explains),
        }
    }
}

/// Counts of one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// The counts under each law, that of the lags first.
    pub tallies: [WakeTally; Law::ALL.len()],
    /// True if the lags explain so many wake-ups that the other laws do not count.
    is_steady: bool,
}

impl Course {
    /// Returns the counts; `None`: the trace does not tell them.
    pub fn tally(&self) -> Option<&WakeTally> {
        let tally = &self.tallies[0];
        let agree = self.tallies.iter().all(|other| other == tally);
        (self.is_steady || agree).then_some(tally)
    }

    /// Returns the smallest and the largest number of migrations under the laws.
    pub fn range(&self) -> (u64, u64) {
        let all = || self.tallies.iter().map(WakeTally::migrations);
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    }
}

/// Counts of a trace's wake-ups as recorded, and under each policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Counts as recorded.
    pub recorded: WakeTally,
    /// Counts under [`existing`].
    pub existing: Course,
    /// Counts under [`Follow`], with its [`BOUND`].
    pub follow: Course,
    /// Wake-ups for which [`existing`] chooses the recorded CPU, given the recorded state.
    pub as_existing: u64,
    /// Number of wake-ups by the distance of the interrupt behind its task, in wake-ups; distance 0
    /// is first.
    pub behind: [u64; MOST_LAG + 1],
    /// Wake-ups with a waking CPU that the task's past does not explain.
    pub unexplained: u64,
    /// Number of tasks that were woken.
    pub tasks: usize,
    /// Lost wake-ups that the trace reports, if it reports any number.
    pub lost: Option<u64>,
    first_ns: u64,
    last_ns: u64,
}

/// The distances that explain the wake-ups of a task, or of all.
#[derive(Clone, Copy, Default)]
struct Explained {
    /// Number of wake-ups that each distance explains, of those that tell.
    by: [u32; MOST_LAG + 1],
    /// Number of wake-ups that tell.
    telling: u32,
}

impl Explained {
    fn add(&mut self, other: &Explained) {
        self.by.iter_mut().zip(&other.by).for_each(|(sum, by)| *sum = sum.saturating_add(*by));
        self.telling = self.telling.saturating_add(other.telling);
    }

    /// Returns the distance that explains the most wake-ups; the smallest, if several do.
    fn lag(&self) -> usize {
        let most = self.by.iter().max();
        self.by.iter().position(|by| Some(by) == most).unwrap_or(0)
    }
}

/// The lag of each task.
struct Lags {
    of: HashMap<u32, usize>,
    all: usize,
    /// True if the lags explain nearly all wake-ups that tell.
    are_steady: bool,
}

impl Lags {
    /// Reads a whole trace.
    fn read(reader: &mut Reader<impl BufRead>) -> Result<Self, TraceError> {
        let mut tasks: HashMap<u32, (TaskPath, Explained)> = HashMap::new();
        while let Some(wake) = reader.next().transpose()? {
            if tasks.len() == MOST_TASKS && !tasks.contains_key(&wake.task) {
                let fault = format!("more than {MOST_TASKS} tasks; record a shorter time");
                return Err(TraceError::new(reader.line(), fault));
            }
            let (path, explained) =
                tasks.entry(wake.task).or_insert_with(|| (TaskPath::new(), Explained::default()));
            path.ran_on(wake.previous);
            let known = path.ran.iter().take_while(|&&cpu| cpu != NOWHERE);
            if known.clone().any(|cpu| *cpu != path.ran[0]) {
                explained.telling += 1;
                for (by, cpu) in explained.by.iter_mut().zip(known) {
                    *by += u32::from(*cpu == wake.waker);
                }
            }
        }
        let mut all = Explained::default();
        tasks.values().for_each(|(_, explained)| all.add(explained));
        let own = tasks.iter().filter(|(_, (_, explained))| explained.telling >= ENOUGH);
        let of = own.map(|(task, (_, explained))| (*task, explained.lag())).collect();
        let mut lags = Lags { of, all: all.lag(), are_steady: false };
        let by = |(task, (_, explained)): (&u32, &(_, Explained))| explained.by[lags.of(*task)];
        let explained: u32 = tasks.iter().map(by).sum();
        lags.are_steady = f64::from(explained) >= STEADY * f64::from(all.telling);
        Ok(lags)
    }

    fn of(&self, task: u32) -> usize {
        self.of.get(&task).copied().unwrap_or(self.all)
    }
}

/// Places of a task in one course of events.
#[derive(Clone, Copy)]
struct TaskPath {
    /// CPUs on which it last ran before each wake-up, the latest first.
    ran: [u16; MOST_LAG + 1],
    /// CPU on which it was last placed.
    put: u16,
    account: Account,
}

impl TaskPath {
    fn new() -> Self {
        Self { ran: [NOWHERE; MOST_LAG + 1], put: NOWHERE, account: Account::default() }
    }

    fn ran_on(&mut self, cpu: u16) {
        self.ran.copy_within(..MOST_LAG, 1);
        self.ran[0] = cpu;
    }
}

/// A task in one course of events.
struct ReplayPath {
    path: TaskPath,
    /// Its state under [`Follow`].
    policy: Follow,
}

/// A task in all courses of events.
struct ReplayTask {
    lag: usize,
    recorded: TaskPath,
    existing: [ReplayPath; Law::ALL.len()],
    follow: [ReplayPath; Law::ALL.len()],
    /// Its last waking CPU, and whether that ever changed.
    waker: u16,
    is_followed: bool,
}

impl ReplayTask {
    fn new(lag: usize) -> Self {
        let path = |_| ReplayPath { path: TaskPath::new(), policy: Follow::new() };
        Self {
            lag,
            recorded: TaskPath::new(),
            existing: Law::ALL.map(path),
            follow: Law::ALL.map(path),
            waker: NOWHERE,
            is_followed: false,
        }
    }
}

/// Replays a trace, which is read twice: `first` finds the lags of the interrupts.
///
/// # Errors
/// Fails when the trace is malformed, truncated or too large.
pub fn replay(
    first: &mut Reader<impl BufRead>,
    again: &mut Reader<impl BufRead>,
) -> Result<Replay, TraceError> {
    let lags = Lags::read(first)?;
    let course = Course { is_steady: lags.are_steady, ..Course::default() };
    let (existing, follow) = (course.clone(), course);
    let mut replay = Replay { existing, follow, first_ns: u64::MAX, ..Replay::default() };
    let mut tasks: HashMap<u32, ReplayTask> = HashMap::new();
    while let Some(wake) = again.next().transpose()? {
        let task = tasks.entry(wake.task).or_insert_with(|| ReplayTask::new(lags.of(wake.task)));
        replay.wake(task, &wake);
    }
    replay.tasks = tasks.len();
    replay.lost = again.lost();
    Ok(replay)
}

impl Replay {
    fn wake(&mut self, task: &mut ReplayTask, wake: &Wake) {
        self.first_ns = self.first_ns.min(wake.at_ns);
        self.last_ns = self.last_ns.max(wake.at_ns);
        let is_new = task.recorded.put == NOWHERE;
        let is_moved = task.recorded.put != wake.previous;
        let explaining = self.record(task, wake, is_moved && !is_new);
        for (paths, course, follows) in [
            (&mut task.existing, &mut self.existing, false),
            (&mut task.follow, &mut self.follow, true),
        ] {
            for ((ReplayPath { path, policy }, tally), law) in
                paths.iter_mut().zip(&mut course.tallies).zip(Law::ALL)
            {
                let previous = if is_moved { wake.previous } else { path.put };
                tally.other_migrations += u64::from(!is_new && path.put != previous);
                path.ran_on(previous);
                let waker = match law.behind(task.lag, &explaining).map(|behind| path.ran[behind]) {
                    Some(cpu) if task.is_followed && cpu != NOWHERE => cpu,
                    _ => wake.waker,
                };
                let kernels = || existing(waker, previous, wake.idle);
                path.put = match follows {
                    false => kernels(),
                    true => policy.place(waker, previous, BOUND, kernels),
                };
                tally.count(&mut path.account, waker, previous, path.put);
            }
        }
    }

    /// Counts a wake-up in the recorded path. Returns the distances behind the task that explain
    /// the place of the interrupt.
    fn record(
        &mut self,
        task: &mut ReplayTask,
        wake: &Wake,
        is_moved: bool,
    ) -> [bool; MOST_LAG + 1] {
        let path = &mut task.recorded;
        self.recorded.other_migrations += u64::from(is_moved);
        path.ran_on(wake.previous);
        path.put = wake.chosen;
        self.recorded.count(&mut path.account, wake.waker, wake.previous, wake.chosen);
        let before = existing(wake.waker, wake.previous, wake.idle);
        self.as_existing += u64::from(before == wake.chosen);
        task.is_followed |= task.waker != NOWHERE && task.waker != wake.waker;
        task.waker = wake.waker;
        let explaining = path.ran.map(|cpu| cpu == wake.waker);
        match Law::Lag.behind(task.lag, &explaining) {
            Some(behind) => self.behind[behind] += 1,
            None => self.unexplained += 1,
        }
        explaining
    }

    /// Time from the first wake-up to the last, in seconds.
    pub fn seconds(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }

    fn course(&self, f: &mut fmt::Formatter<'_>, name: &str, course: &Course) -> fmt::Result {
        match (course.tally(), course.range()) {
            (Some(tally), _) => self.row(f, name, tally),
            (None, (least, most)) => writeln!(
                f,
                "{name:<12} not told: {} to {} migrations by three assumptions, as the interrupts have no steady lag",
                format::number(least as f64),
                format::number(most as f64),
            ),
        }
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str, tally: &WakeTally) -> fmt::Result {
        let mean = tally.settle_mean().map_or("-".into(), format::number);
        let per_thousand = |events| format::number(tally.per_thousand(events));
        write!(f, "{name:<12} {:>12}", tally.migrations())?;
        for events in [tally.migrations(), tally.swaps].into_iter().chain(tally.returns) {
            write!(f, " {:>10}", per_thousand(events))?;
        }
        let unintended = tally.unintended() * 100.0;
        writeln!(f, " {unintended:>11.2}% {mean:>12} {:>11}", tally.settle_max())
    }
}

/// Prints a table and the conditions on which it rests.
impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wakes = self.recorded.wakes;
        let lost = match self.lost {
            None => "an unknown number lost".into(),
            Some(lost) => format!("{lost} lost"),
        };
        let time = format::seconds(self.seconds());
        writeln!(f, "{wakes} wake-ups of {} tasks in {time}, {lost}", self.tasks)?;
        writeln!(f, "\n{:<12} {:>12} {:>65}", "", "", "for each 1,000 wake-ups")?;
        write!(f, "{:<12} {:>12} {:>10} {:>10}", "", "migrations", "migrations", "swaps")?;
        for span in SPANS {
            write!(f, " {:>10}", format!("back in {span}"))?;
        }
        writeln!(f, " {:>12} {:>12} {:>11}", "unintended", "settle-mean", "settle-max")?;
        self.row(f, "recorded", &self.recorded)?;
        self.course(f, "existing", &self.existing)?;
        self.course(f, "follow", &self.follow)?;
        let percent = |part: u64| format!("{:.1}%", part as f64 * 100.0 / wakes.max(1) as f64);
        let late: u64 = self.behind[1..].iter().sum();
        writeln!(
            f,
            "\nThe interrupt was where its task last ran in {} of the wake-ups, behind it in {}, elsewhere in {}.",
            percent(self.behind[0]),
            percent(late),
            percent(self.unexplained)
        )?;
        writeln!(
            f,
            "The policy 'existing' explains {} of the recorded choices.",
            percent(self.as_existing)
        )?;
        write!(
            f,
            "Open loop: wake-ups and idle CPUs are those of the trace; interrupts follow the replayed tasks with the lag of the trace."
        )
    }
}
