//! Threads of other processes, with names that are never reused.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use daiko_sys::process::parse_start;

/// A thread: its ids, and its start time, as ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId {
    /// The process id.
    pub pid: u32,
    /// The thread id.
    pub tid: u32,
    /// Start time in ticks since the machine's start.
    pub start: u64,
}

/// The kernel's data about a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread.
    pub id: ThreadId,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// CPU time used, in ticks.
    pub ticks: u64,
}

impl ThreadId {
    /// The thread with these ids, if it exists.
    pub fn find(pid: u32, tid: u32) -> Option<Self> {
        Some(Self { pid, tid, start: parse_start(&stat(pid, tid)?)? })
    }

    /// The first thread of a process, which represents it: it exists until the last thread has
    /// ended.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such process; `InvalidInput` if `pid` is the id of another thread
    /// of a process.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let status = fs::read(format!("/proc/{pid}/status"))?;
        let first = str::from_utf8(field(&status, b"Tgid:").unwrap_or_default()).ok();
        match first.and_then(|first| first.trim().parse::<u32>().ok()) {
            Some(first) if first == pid => {
                Self::find(pid, pid).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            first => {
                let process = first.unwrap_or_default();
                let reason = format!("{pid} is a thread of process {process}");
                Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
            }
        }
    }

    /// Returns true if the thread has not ended.
    pub fn lives(&self) -> bool {
        Self::find(self.pid, self.tid) == Some(*self)
    }

    /// Returns true if the thread has not ended, and runs or is ready to run.
    pub fn is_ready(&self) -> bool {
        let stat = stat(self.pid, self.tid).filter(|stat| parse_start(stat) == Some(self.start));
        stat.is_some_and(|stat| state(&stat) == Some(b'R'))
    }

    /// Returns true if the process with this first thread has any thread that has not ended.
    pub fn process_lives(&self) -> bool {
        match stat(self.pid, self.tid).filter(|stat| parse_start(stat) == Some(self.start)) {
            None => false,
            // The first thread may end before the rest.
            Some(stat) => {
                !has_ended(&stat) || of(self.pid).is_ok_and(|threads| !threads.is_empty())
            }
        }
    }
}

/// The text behind `name` in a `/proc` file with one such line.
pub(crate) fn field<'a>(status: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))
}

fn stat(pid: u32, tid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()
}

/// The threads of a process, in the order of their ids.
///
/// # Errors
///
/// `NotFound` if there is no such process.
///
/// # Examples
///
/// ```
/// let threads = daiko_pair::thread::of(std::process::id())?;
/// assert!(threads.iter().any(|thread| thread.id.tid == daiko_sys::thread::id()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn of(pid: u32) -> io::Result<Vec<Thread>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?;
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let mut ids: Vec<u32> = ids.collect();
    ids.sort_unstable();
    Ok(ids.into_iter().filter_map(|tid| read(pid, tid)).collect())
}

fn read(pid: u32, tid: u32) -> Option<Thread> {
    let stat = stat(pid, tid).filter(|stat| !has_ended(stat))?;
    let start = parse_start(&stat)?;
    let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned();
    Some(Thread { id: ThreadId { pid, tid, start }, name, ticks: ticks(&stat)? })
}

/// Returns true for a zombie or dead thread.
fn has_ended(stat: &[u8]) -> bool {
    matches!(state(stat), Some(b'Z' | b'X'))
}

/// Returns the third field.
fn state(stat: &[u8]) -> Option<u8> {
    let rest = stat.rsplit(|&byte| byte == b')').next()?;
    rest.strip_prefix(b" ")?.first().copied()
}

/// CPU time from fields 14 and 15: in user space and in the kernel.
fn ticks(stat: &[u8]) -> Option<u64> {
    let rest = stat.rsplit(|&byte| byte == b')').next()?;
    let mut fields = str::from_utf8(rest).ok()?.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// These processes and all their descendants that were not left to another parent.
pub fn families(pids: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let mut all: BTreeSet<u32> = BTreeSet::new();
    let mut new: Vec<u32> = pids.into_iter().collect();
    while let Some(pid) = new.pop() {
        if all.insert(pid) {
            new.extend(children(pid));
        }
    }
    all
}

/// The children of a process; none if the kernel does not report them (`CONFIG_PROC_CHILDREN`).
fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let ids = |list: String| list.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>();
    lists.flat_map(ids).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_thread_is_known_until_it_ends() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let named = std::thread::Builder::new().name("named) R 1 2".into());
        let other = named
            .spawn(move || {
                tell.send(daiko_sys::thread::id()).unwrap();
                let _ = ended.recv();
            })
            .unwrap();
        let (pid, tid) = (std::process::id(), told.recv().unwrap());
        let found = of(pid).unwrap().into_iter().find(|thread| thread.id.tid == tid).unwrap();
        assert_eq!(found.name, "named) R 1 2");
        assert!(found.id.lives() && ThreadId::find(pid, tid) == Some(found.id));
        assert!(
            !ThreadId { start: found.id.start + 1, ..found.id }.lives(),
            "another with this id"
        );
        // It waits, and its name is no state.
        while found.id.is_ready() {
            std::thread::yield_now();
        }
        assert!(ThreadId::find(pid, daiko_sys::thread::id()).unwrap().is_ready());
        drop(end);
        other.join().unwrap();
        while found.id.lives() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_started_process_belongs_to_the_family() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let family = families([std::process::id()]);
        if family.len() == 1 {
            println!("skipped: this kernel does not list children");
        } else {
            assert!(family.contains(&child.id()));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_zombie_has_no_threads() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(of(child.id()).unwrap().len(), 1);
        drop(child.stdin.take());
        while !of(child.id()).unwrap().is_empty() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn a_process_is_told_from_its_threads() {
        let pid = std::process::id();
        let (first, tid) = (ThreadId::of_process(pid).unwrap(), daiko_sys::thread::id());
        assert!((first.pid, first.tid) == (pid, pid) && first.process_lives());
        assert!(!ThreadId { start: first.start + 1, ..first }.process_lives());
        let error = ThreadId::of_process(tid).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "a test has a thread of its own");
        assert_eq!(error.to_string(), format!("{tid} is a thread of process {pid}"));
        assert_eq!(ThreadId::of_process(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_process_that_is_not_there_has_no_threads() {
        assert_eq!(of(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(families([u32::MAX]).len(), 1);
    }
}
