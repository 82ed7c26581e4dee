//! The report of a stuck worker.

use std::fmt;
use std::panic::Location;
use std::process;

use daiko_sys::thread;

/// A worker that has been in one fiber for long, as reported to
/// [`RuntimeBuilder::on_stuck`](crate::RuntimeBuilder::on_stuck).
///
/// Its [`Display`](fmt::Display) is a text of several lines, the last of which has the remedy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stuck {
    /// The worker, counted from 0.
    pub worker: usize,
    /// The name of the fiber on the worker.
    pub fiber: Option<String>,
    /// The source location that spawned that fiber.
    pub spawned_at: &'static Location<'static>,
    /// The state of the worker's thread, by the letter that `ps` shows; `None` if the kernel does
    /// not report it.
    pub state: Option<char>,
    /// The number of the system call that blocks the thread; `None` if it runs, or the kernel does
    /// not report it.
    pub system_call: Option<i64>,
    /// True if the thread is blocked in a futex: if a fiber listed below holds the lock, for ever.
    pub in_futex: bool,
    /// The fibers that have run on the worker, and could go on if it were not stuck, at most 16
    /// groups. If the worker is blocked in a futex, one of them may hold the lock.
    pub runnable: Vec<FiberGroup>,
    /// Number of runnable fibers, listed or not.
    pub runnable_count: usize,
    /// Names (or else the source locations of the spawn) of the worker's suspended fibers, at most
    /// 16, if it is blocked in a futex: one of them may hold the lock that it waits for.
    pub suspended: Vec<String>,
}

/// Fibers of a [`Stuck`] worker with one name, spawned at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FiberGroup {
    /// Their name.
    pub name: Option<String>,
    /// The source location that spawned them.
    pub spawned_at: &'static Location<'static>,
    /// Their number.
    pub count: usize,
}

/// Maximum number of groups in a report.
const MOST_GROUPS: usize = 16;

impl Stuck {
    /// Adds a runnable fiber to its group.
    pub(super) fn add_runnable(
        &mut self,
        name: Option<String>,
        spawned_at: &'static Location<'static>,
    ) {
        self.runnable_count += 1;
        let is_like =
            |group: &&mut FiberGroup| (&group.name, group.spawned_at) == (&name, spawned_at);
        if let Some(group) = self.runnable.iter_mut().find(is_like) {
            group.count += 1;
        } else if self.runnable.len() < MOST_GROUPS {
            self.runnable.push(FiberGroup { name, spawned_at, count: 1 });
        }
    }

    /// Returns the remedy for what the thread is doing.
    fn remedy(&self) -> &'static str {
        match self.system_call {
            Some(thread::FUTEX) => {
                "a lock of std that is held over a suspension, or a wait of std for another fiber, \
                 blocks its worker: use daiko::sync"
            }
            Some(_) => "pass calls that block to daiko::blocking, or use daiko's own",
            None if self.state == Some('R') => {
                "let a computation call daiko::yield_now, or pass it to daiko::blocking; \
                 a loop that waits for a word: daiko::watch"
            }
            None => "pass calls that block to daiko::blocking",
        }
    }

    /// Writes the fibers that may hold the lock that the worker waits for.
    fn write_holders(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suspended = self.suspended.join(", ");
        match (self.runnable.is_empty(), self.suspended.is_empty()) {
            _ if !self.in_futex => Ok(()),
            (true, true) => f.write_str("\n  no other fiber of this worker can hold the lock"),
            (false, true) => f.write_str("\n  one of them may hold the lock"),
            (true, false) => write!(f, "\n  a suspended fiber may hold the lock: {suspended}"),
            (false, false) => {
                write!(f, "\n  one of them may hold the lock, or a suspended fiber: {suspended}")
            }
        }
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "daiko: worker {} is stuck in ", self.worker)?;
        match &self.fiber {
            Some(name) => write!(f, "fiber {name:?}")?,
            None => f.write_str("a fiber")?,
        }
        write!(f, ", spawned at {}; its thread ", self.spawned_at)?;
        match (self.system_call, self.state) {
            (Some(number), _) => match thread::syscall_name(number) {
                Some(name) => write!(f, "is blocked in {name}")?,
                None => write!(f, "is blocked in system call {number}")?,
            },
            (None, Some('R')) => f.write_str("runs")?,
            (None, Some(state)) => write!(f, "is in state {state}")?,
            (None, None) => f.write_str("is in an unknown state")?,
        }
        match self.runnable_count {
            0 => f.write_str("\n  no other fiber that has started there could run")?,
            1 => f.write_str("\n  a runnable fiber waits behind it:")?,
            count => write!(f, "\n  {count} runnable fibers wait behind it:")?,
        }
        self.runnable.iter().try_for_each(|group| write!(f, "\n    {group}"))?;
        let listed: usize = self.runnable.iter().map(|group| group.count).sum();
        if listed < self.runnable_count {
            write!(f, "\n    and {} more", self.runnable_count - listed)?;
        }
        self.write_holders(f)?;
        write!(f, "\n  its stack: daiko ps {} --state=running --stacks --stop", process::id())?;
        write!(f, "\n  remedy: {}", self.remedy())
    }
}

impl fmt::Display for FiberGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, &self.name) {
            (1, Some(name)) => write!(f, "fiber {name:?}")?,
            (1, None) => f.write_str("a fiber")?,
            (count, Some(name)) => write!(f, "{count} fibers {name:?}")?,
            (count, None) => write!(f, "{count} fibers")?,
        }
        write!(f, ", spawned at {}", self.spawned_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &Location<'_> = Location::caller();

    fn stuck(state: char, system_call: Option<i64>) -> Stuck {
        Stuck {
            worker: 3,
            fiber: Some("asks".into()),
            spawned_at: HERE,
            state: Some(state),
            system_call,
            in_futex: system_call == Some(thread::FUTEX),
            runnable: Vec::new(),
            runnable_count: 0,
            suspended: Vec::new(),
        }
    }

    #[test]
    fn the_text_names_the_call_the_waiting_fibers_and_the_possible_holders() {
        let mut stuck = stuck('S', Some(thread::FUTEX));
        stuck.suspended = vec!["main".into(), "x".into()];
        stuck.add_runnable(Some("holder".into()), HERE);
        stuck.add_runnable(None, HERE);
        stuck.add_runnable(None, HERE);
        let expected = [
            "daiko: worker 3 is stuck in fiber \"asks\", spawned at HERE; its thread is blocked in futex",
            "  3 runnable fibers wait behind it:",
            "    fiber \"holder\", spawned at HERE",
            "    2 fibers, spawned at HERE",
            "  one of them may hold the lock, or a suspended fiber: main, x",
            &format!("  its stack: daiko ps {} --state=running --stacks --stop", process::id()),
            "  remedy: a lock of std that is held over a suspension, or a wait of std for another \
             fiber, blocks its worker: use daiko::sync",
        ];
        assert_eq!(stuck.to_string(), expected.join("\n").replace("HERE", &HERE.to_string()));
    }

    #[test]
    fn groups_beyond_the_most_are_counted() {
        let mut stuck = stuck('R', None);
        (0..20).for_each(|name| stuck.add_runnable(Some(name.to_string()), HERE));
        let text = stuck.to_string();
        assert!(text.contains("its thread runs\n  20 runnable fibers"), "{text}");
        assert!(text.contains("\n    and 4 more\n  its stack: daiko ps "), "{text}");
        assert!(text.contains("\n  remedy: let a computation"), "{text}");
        assert!(!text.contains("hold the lock"), "{text}");
    }
}
