//! All processes that this process has started, directly or not.

use std::time::Duration;
use std::{fs, io, process, thread};

use daiko_sys::clock;
use daiko_sys::process::{KILL, signal_child, wait_now};

/// Interval between two looks whether killed processes are gone.
const LOOK: Duration = Duration::from_millis(1);
/// Number of looks, after which processes that cannot be killed are left.
const MOST_LOOKS: usize = 5000;

/// All descendants of this process, killed and reaped when this is dropped, including orphans and
/// processes in sessions of their own.
///
/// Use it only in a process that needs none of its children any longer.
#[derive(Debug)]
pub(crate) struct Descendants(());

impl Descendants {
    /// Makes this process the parent of orphans among its descendants.
    ///
    /// # Errors
    /// Returns the error of `prctl`.
    pub(crate) fn adopt() -> io::Result<Self> {
        let yes: libc::c_ulong = 1;
        // SAFETY: this option takes one plain integer.
        match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, yes) } {
            0 => Ok(Self(())),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Descendants {
    fn drop(&mut self) {
        for _ in 0..MOST_LOOKS {
            let all = all();
            let alive = below(process::id(), &all);
            if alive.is_empty() {
                return;
            }
            // An id of a process that ends between the look and the signal is not reused so soon:
            // the kernel gives out ids in turn.
            alive.iter().for_each(|process| signal_child(process.pid, KILL));
            while wait_now(None).is_some() {}
            thread::sleep(LOOK);
        }
    }
}

/// CPU time of the process `pid` and of its descendants. An ended child counts once its parent has
/// waited for it.
pub(crate) fn cpu_of_family(pid: u32) -> Duration {
    let all = all();
    let own = all.iter().filter(|process| process.pid == pid);
    own.chain(below(pid, &all)).map(ProcessEntry::cpu).sum()
}

/// A process in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessEntry {
    pid: u32,
    parent: u32,
    /// CPU time of the children that it has waited for, in ticks.
    waited_ticks: u64,
}

impl ProcessEntry {
    fn cpu(&self) -> Duration {
        let running = Duration::from_nanos(clock::cpu_ns_of_process(self.pid).unwrap_or_default());
        // SAFETY: the call takes a plain integer.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1);
        running + Duration::from_secs_f64(self.waited_ticks as f64 / per_second as f64)
    }
}

/// The processes below `pid`, in any order.
fn below(pid: u32, all: &[ProcessEntry]) -> Vec<&ProcessEntry> {
    let (mut family, mut found) = (vec![pid], Vec::new());
    while let Some(parent) = family.pop() {
        let children = all.iter().filter(|process| process.parent == parent);
        children.clone().for_each(|child| family.push(child.pid));
        found.extend(children);
    }
    found
}

/// All processes.
fn all() -> Vec<ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let stat = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| parse(pid, &stat(pid)?)).collect()
}

/// Parses the text of `/proc/PID/stat`. The name in parentheses may hold any characters.
fn parse(pid: u32, stat: &str) -> Option<ProcessEntry> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let parent = fields.get(1)?.parse().ok()?;
    Some(ProcessEntry { pid, parent, waited_ticks: ticks(13)? + ticks(14)? })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::testing::child::in_child_well;

    #[test]
    fn the_fields_of_a_process_follow_its_name() {
        let stat = "12 (a) b (c) S 7 1 1 0 -1 4 10 20 30 40 50 60 70 80 20 0 1 0\n";
        let entry = ProcessEntry { pid: 12, parent: 7, waited_ticks: 150 };
        assert_eq!(parse(12, stat), Some(entry));
        assert_eq!(parse(12, "12 (a) S 7 1"), None);
        assert_eq!(parse(12, ""), None);
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let entry = |pid, parent| ProcessEntry { pid, parent, waited_ticks: 0 };
        let all = [entry(4, 3), entry(2, 1), entry(3, 2), entry(5, 9), entry(1, 0)];
        let mut found: Vec<u32> = below(2, &all).iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
    }

    /// Starts a shell that starts a process in a session of its own, and prints its id.
    fn sleeper(shell_ends: bool) -> (process::Child, u32) {
        let line = "setsid sh -c 'echo $$; exec sleep 1000' & read line";
        let line = if shell_ends { line.strip_suffix(" read line").unwrap_or(line) } else { line };
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().expect("a shell");
        let mut told = String::new();
        let output = shell.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut told).expect("a line");
        (shell, told.trim().parse().expect("an id"))
    }

    #[test]
    fn all_descendants_end_when_their_guard_is_dropped() {
        in_child_well(
            "kit::descendants::tests::all_descendants_end_when_their_guard_is_dropped",
            || {
                let descendants = Descendants::adopt().expect("adopted");
                let (mut ended, orphan) = sleeper(true);
                ended.wait().expect("an end");
                let (_running, grandchild) = sleeper(false);
                let below = below(process::id(), &all()).len();
                assert_eq!(below, 3, "an orphan, a shell and its child");
                drop(descendants);
                for pid in [orphan, grandchild] {
                    assert!(clock::cpu_ns_of_process(pid).is_none(), "{pid} lives");
                }
            },
        );
    }

    #[test]
    fn the_time_of_a_family_counts_ended_children_that_were_waited_for() {
        let count = "n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done";
        let line = format!("sh -c '{count}'; echo; read line");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().expect("a shell");
        let before = cpu_of_family(shell.id());
        let output = shell.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut String::new()).expect("a line");
        let after = cpu_of_family(shell.id());
        shell.kill().and_then(|()| shell.wait()).expect("killed");
        assert!(after >= before + Duration::from_millis(10), "{before:?} {after:?}");
    }
}
