//! A recorded trace, replayed under both policies.
//!
//! A trace records only one course of events. Under another policy, tasks would be elsewhere, so
//! other CPUs would wake them and other CPUs would be idle. A replay therefore assumes:
//!
//! 1. *Wake-ups* are the same, at the same times, in the same order. No policy makes them faster or
//!    slower (open loop).
//! 2. *Idle CPUs* are those of the trace. Tasks that were placed elsewhere are assumed to be too
//!    short to matter.
//! 3. *Waking CPUs*: the interrupt follows the replayed task with the lag that the trace shows. If
//!    the trace's waking CPU is the CPU where the task ran N wake-ups before, the replay's waking
//!    CPU is the CPU where the replayed task ran N wake-ups before. The smallest N is taken, so a
//!    task that stayed long in one place indicates no lag. A waking CPU that nothing explains (a
//!    timer, another process) is kept. So is that of a task with the same waking CPU in all of its
//!    past (no steering).
//! 4. *Other moves*: a task that last ran where it was not placed was moved by a balancer, and is
//!    moved there in the replay as well.
//!
//! If a trace of the simulator is replayed under the policy by which it was recorded, the result is
//! its own counts.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;

use daiko_core::place::{BOUND, Follow, existing};

use super::tally::{Account, WakeTally};
use super::trace::{Reader, TraceError, Wake};
use crate::kit::format;

/// Number of wake-ups to look back for the interrupt: more than the longest settling in the paper.
pub const MOST_LAG: usize = 12;
/// Largest number of tasks, which bounds the memory of a replay.
const MOST_TASKS: usize = 65_536;
const NOWHERE: u16 = u16::MAX;

/// Counts of a trace's wake-ups as recorded, and under each policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Counts as recorded.
    pub recorded: WakeTally,
    /// Counts under [`existing`].
    pub existing: WakeTally,
    /// Counts under [`Follow`], with its [`BOUND`].
    pub follow: WakeTally,
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

/// A task in all three sequences.
struct ReplayTask {
    recorded: TaskPath,
    existing: TaskPath,
    follow: TaskPath,
    policy: Follow,
    /// Its last waking CPU, and whether that ever changed.
    waker: u16,
    is_followed: bool,
}

impl ReplayTask {
    fn new() -> Self {
        Self {
            recorded: TaskPath::new(),
            existing: TaskPath::new(),
            follow: TaskPath::new(),
            policy: Follow::new(),
            waker: NOWHERE,
            is_followed: false,
        }
    }
}

/// Replays the remaining wake-ups of `reader`.
///
/// # Errors
/// Fails when the trace is malformed, truncated or too large.
pub fn replay(reader: &mut Reader<impl BufRead>) -> Result<Replay, TraceError> {
    let mut replay = Replay { first_ns: u64::MAX, ..Replay::default() };
    let mut tasks: HashMap<u32, ReplayTask> = HashMap::new();
    while let Some(wake) = reader.next().transpose()? {
        if tasks.len() == MOST_TASKS && !tasks.contains_key(&wake.task) {
            let fault = format!("more than {MOST_TASKS} tasks; record a shorter time");
            return Err(TraceError::new(reader.line(), fault));
        }
        replay.wake(tasks.entry(wake.task).or_insert_with(ReplayTask::new), &wake);
    }
    replay.tasks = tasks.len();
    replay.lost = reader.lost();
    Ok(replay)
}

impl Replay {
    fn wake(&mut self, task: &mut ReplayTask, wake: &Wake) {
        self.first_ns = self.first_ns.min(wake.at_ns);
        self.last_ns = self.last_ns.max(wake.at_ns);
        let is_new = task.recorded.put == NOWHERE;
        let is_moved = task.recorded.put != wake.previous;
        let behind = self.record(task, wake, is_moved && !is_new);
        let was_at = |path: &TaskPath| if is_moved { wake.previous } else { path.put };
        for (path, tally, policy) in [
            (&mut task.existing, &mut self.existing, None),
            (&mut task.follow, &mut self.follow, Some(&mut task.policy)),
        ] {
            let previous = was_at(path);
            tally.other_migrations += u64::from(!is_new && path.put != previous);
            path.ran_on(previous);
            let waker = match behind.map(|behind| path.ran[behind]) {
                Some(cpu) if task.is_followed => cpu,
                _ => wake.waker,
            };
            let kernels = || existing(waker, previous, wake.idle);
            path.put = match policy {
                None => kernels(),
                Some(policy) => policy.place(waker, previous, BOUND, kernels),
            };
            tally.count(&mut path.account, waker, previous, path.put);
        }
    }

    /// Counts a wake-up in the recorded path. Returns how many wake-ups the interrupt is behind
    /// the task.
    fn record(&mut self, task: &mut ReplayTask, wake: &Wake, is_moved: bool) -> Option<usize> {
        let path = &mut task.recorded;
        self.recorded.other_migrations += u64::from(is_moved);
        path.ran_on(wake.previous);
        path.put = wake.chosen;
        self.recorded.count(&mut path.account, wake.waker, wake.previous, wake.chosen);
        let before = existing(wake.waker, wake.previous, wake.idle);
        self.as_existing += u64::from(before == wake.chosen);
        task.is_followed |= task.waker != NOWHERE && task.waker != wake.waker;
        task.waker = wake.waker;
        let behind = path.ran.iter().position(|cpu| *cpu == wake.waker);
        match behind {
            Some(behind) => self.behind[behind] += 1,
            None => self.unexplained += 1,
        }
        behind
    }

    /// Time from the first wake-up to the last, in seconds.
    pub fn seconds(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str, tally: &WakeTally) -> fmt::Result {
        let each_second = match self.seconds() {
            0.0 => "-".into(),
            seconds => format::number(tally.migrations() as f64 / seconds),
        };
        let mean = tally.settle_mean().map_or("-".into(), format::number);
        writeln!(
            f,
            "{name:<12} {:>12} {each_second:>12} {:>10} {:>11.2}% {mean:>12} {:>11}",
            tally.migrations(),
            tally.swaps,
            tally.unintended() * 100.0,
            tally.settle_max(),
        )
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
        writeln!(
            f,
            "\n{:<12} {:>12} {:>12} {:>10} {:>12} {:>12} {:>11}",
            "", "migrations", "1/s", "swaps", "unintended", "settle-mean", "settle-max"
        )?;
        self.row(f, "recorded", &self.recorded)?;
        self.row(f, "existing", &self.existing)?;
        self.row(f, "follow", &self.follow)?;
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
