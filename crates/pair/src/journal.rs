//! What is to be put back, in a file: written before the first change, kept until the last is undone.
//!
//! 1. A session has a file of its own in a folder that only its user can write to, and holds a lock on it. The first line says
//!    which start of the machine it belongs to.
//! 2. Before a thread is bound a line says which thread, how it was allowed to run, and how it will be.
//! 3. A file without a lock is that of a session that was killed. A thread is put back if it is allowed to run as one of the
//!    file's lines says that it would be: whoever has changed that since then has had the last word. So is a thread that its
//!    process has started meanwhile, which has inherited it.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use daiko_sys::cpu::CpuSet;
use daiko_sys::process::boot_id;

use crate::machine::{Machine, is_gone};
use crate::thread::{self, ThreadId};

/// Where root's are, and those of all who have no folder of their own.
const SYSTEM: &str = "/run/daiko-pair";

/// The folder of the calling user's journals: in `$XDG_RUNTIME_DIR`, else in `/run`, which only root can write to.
pub fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.filter(|own| own.is_absolute()).map_or_else(|| SYSTEM.into(), |own| own.join("daiko-pair"))
}

/// The journal of a session that runs.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// A change of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub thread: ThreadId,
    /// How it was allowed to run.
    pub before: CpuSet,
    /// How it is then.
    pub during: CpuSet,
}

/// What became of sessions that were killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Sessions that go on, which were left alone.
    pub running: usize,
    /// Sessions that were killed.
    pub killed: usize,
    /// Threads that may run again as before.
    pub threads: usize,
    /// Threads that somebody else has changed since, which were left alone.
    pub changed: usize,
    /// Threads that could not be put back: their journal is kept.
    pub refused: usize,
}

impl Journal {
    /// A new one in `folder`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// What the file system reports; `PermissionDenied` also if others can write to the folder.
    pub fn create(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        is_own(&fs::symlink_metadata(folder)?)?;
        let path = folder.join(std::process::id().to_string());
        // A file of an earlier process with this id, if there is one, is to be restored first.
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        Self::begin(path.clone(), file).inspect_err(|_| {
            // It holds nothing that anybody would miss.
            let _ = fs::remove_file(&path);
        })
    }

    fn begin(path: PathBuf, mut file: File) -> io::Result<Self> {
        file.try_lock()?;
        file.write_all(head().as_bytes())?;
        Ok(Self { path, file })
    }

    /// Notes a change before it is made.
    ///
    /// # Errors
    ///
    /// What the file system reports: the change is not to be made then.
    pub fn note(&mut self, thread: ThreadId, before: &CpuSet, during: &CpuSet) -> io::Result<()> {
        let change = Change { thread, before: before.clone(), during: during.clone() };
        self.file.write_all(format!("{change}\n").as_bytes())
    }

    /// Removes it, once all is undone.
    ///
    /// # Errors
    ///
    /// What the file system reports.
    pub fn finish(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Undoes what killed sessions of this user have left.
///
/// # Errors
///
/// What the file system reports, but for a folder that is not there.
pub fn restore(folder: &Path, machine: &dyn Machine) -> io::Result<Restored> {
    let mut restored = Restored::default();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(restored),
        entries => entries?,
    };
    is_own(&fs::symlink_metadata(folder)?)?;
    for entry in entries {
        restored.file(&entry?.path(), machine)?;
    }
    Ok(restored)
}

impl Restored {
    fn file(&mut self, path: &Path, machine: &dyn Machine) -> io::Result<()> {
        let mut file = match File::open(path) {
            // Its session has just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                self.running += 1;
                return Ok(());
            }
            locked => locked?,
        }
        self.killed += 1;
        let refused = self.refused;
        let mut journal = Vec::new();
        file.read_to_end(&mut journal)?;
        self.undo(&parse(&journal), machine);
        if self.refused == refused { fs::remove_file(path) } else { Ok(()) }
    }

    /// What was before the first change of a thread, if it is now as after one of them.
    fn undo(&mut self, changes: &[Change], machine: &dyn Machine) {
        let mut threads: Vec<ThreadId> = changes.iter().map(|change| change.thread).collect();
        let mut pids: Vec<u32> = threads.iter().map(|thread| thread.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let all =
            thread::families(pids).into_iter().flat_map(|pid| thread::of(pid).unwrap_or_default());
        threads.extend(all.map(|thread| thread.id));
        threads.sort_unstable();
        threads.dedup();
        threads.into_iter().for_each(|thread| self.put_back(thread, changes, machine));
    }

    fn put_back(&mut self, thread: ThreadId, changes: &[Change], machine: &dyn Machine) {
        let Ok(now) = machine.allowed_of(thread) else { return };
        let own = changes.iter().find(|change| change.thread == thread);
        // One that has inherited: any change of that kind will do, the same process's first.
        let mut alike: Vec<&Change> =
            changes.iter().filter(|change| change.during == now).collect();
        alike.sort_by_key(|change| change.thread.pid != thread.pid);
        match (own, alike.first()) {
            (Some(own), _) if own.before == now => {}
            (Some(own), _) if changes.iter().any(|c| c.thread == thread && c.during == now) => {
                self.count(machine.bind(thread, &own.before));
            }
            (Some(_), _) => self.changed += 1,
            (None, Some(alike)) => {
                // What that one was before its own first change.
                let first = changes.iter().find(|change| change.thread == alike.thread);
                self.count(machine.bind(thread, &first.unwrap_or(alike).before));
            }
            (None, None) => {}
        }
    }

    fn count(&mut self, bound: io::Result<()>) {
        match bound {
            Ok(()) => self.threads += 1,
            Err(error) if is_gone(&error) => {}
            Err(_) => self.refused += 1,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread: ThreadId { pid, tid, start }, before, during } = self;
        write!(f, "{pid} {tid} {start} {before} {during}")
    }
}

impl Change {
    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&str> = str::from_utf8(line).ok()?.strip_suffix('\n')?.split(' ').collect();
        let [pid, tid, start, before, during] = fields[..] else { return None };
        let thread =
            ThreadId { pid: pid.parse().ok()?, tid: tid.parse().ok()?, start: start.parse().ok()? };
        Some(Self { thread, before: before.parse().ok()?, during: during.parse().ok()? })
    }
}

/// The first line of a journal.
pub fn head() -> String {
    format!("daiko-pair 1 {}\n", boot_id())
}

/// The changes in a journal; none if it is of another start of the machine. A last line that is cut short was never followed by
/// its change.
pub fn parse(journal: &[u8]) -> Vec<Change> {
    let changes = journal.strip_prefix(head().as_bytes()).unwrap_or_default();
    changes.split_inclusive(|byte| *byte == b'\n').map_while(Change::parse).collect()
}

/// A journal that others can write to could bind any thread of this user.
fn is_own(folder: &fs::Metadata) -> io::Result<()> {
    let user = fs::metadata("/proc/self")?.uid();
    match folder.is_dir() && folder.uid() == user && folder.mode() & 0o022 == 0 {
        true => Ok(()),
        false => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "others can write to that folder"))
        }
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
