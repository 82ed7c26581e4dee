//! The file that records changes to undo: written before the first change, kept until the last is
//! undone.
//!
//! 1. A session locks a file of its own in a folder that only its user can write to. The first line
//!    holds the boot id and the start time of the session.
//! 2. Before a thread is bound, a line records the thread, its previous affinity and the new one. A
//!    thread with a narrow affinity, which is left alone, gets a line as well.
//! 3. A session that ends, and [`restore`] for a file without a lock, do the same: a thread is put
//!    back if its affinity is the new one of one of its lines. Any later change by another party
//!    takes precedence. Threads that were started meanwhile and have inherited the affinity are put
//!    back too.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use daiko_sys::cpu::CpuSet;
use daiko_sys::process::boot_id;

use crate::ledger::Ledger;
pub use crate::ledger::{Change, PutBack};
use crate::machine::Machine;
use crate::thread::ThreadId;

const FORMAT: &str = "daiko-pair 2";
/// The folder of root's journals, and of users without a folder of their own.
const SYSTEM: &str = "/run/daiko-pair";

/// The folder of the calling user's journals: in `$XDG_RUNTIME_DIR`, otherwise in `/run`, which
/// only root can write to.
pub fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.filter(|own| own.is_absolute()).map_or_else(|| SYSTEM.into(), |own| own.join("daiko-pair"))
}

/// The journal of a running session.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    ledger: Ledger,
}

impl Journal {
    /// Creates a journal in `folder`, which is created if necessary.
    ///
    /// # Errors
    ///
    /// The error of the file system; `PermissionDenied` also if another user can write to the
    /// folder.
    pub fn create(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let _exclusive = exclusive(folder)?;
        let path = folder.join(std::process::id().to_string());
        // An existing file, of an earlier process with this id, must be restored first.
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        Self::begin(path.clone(), file).inspect_err(|_| {
            // The file holds no change yet.
            let _ = fs::remove_file(&path);
        })
    }

    fn begin(path: PathBuf, mut file: File) -> io::Result<Self> {
        file.try_lock()?;
        let since = ThreadId::of_process(std::process::id())?.start;
        file.write_all(head(since).as_bytes())?;
        Ok(Self { path, file, ledger: Ledger::new(since) })
    }

    /// Records a change before it is made, unless it was recorded before.
    ///
    /// # Errors
    ///
    /// The error of the file system: then the change must not be made.
    pub fn note(&mut self, thread: ThreadId, before: &CpuSet, during: &CpuSet) -> io::Result<()> {
        let change = Change { thread, before: before.clone(), during: during.clone() };
        if !self.ledger.has(&change) {
            self.file.write_all(format!("{change}\n").as_bytes())?;
            self.ledger.add(change);
        }
        Ok(())
    }

    /// All recorded changes.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Puts all threads back and removes the journal. The journal stays, for another attempt, if a
    /// thread cannot be put back.
    ///
    /// # Errors
    ///
    /// The error of the file system once all threads are put back.
    pub fn finish(self, machine: &impl Machine) -> io::Result<PutBack> {
        let done = self.ledger.undo(machine);
        if done.refused == 0 {
            fs::remove_file(&self.path)?;
        }
        Ok(done)
    }
}

/// The outcome for killed sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Running sessions, which were left alone.
    pub running: usize,
    /// Killed sessions.
    pub killed: usize,
    /// The threads of killed sessions. A journal with a refused thread is kept.
    pub threads: PutBack,
    /// Files that were left unchanged, with the reason.
    pub left: Vec<(PathBuf, String)>,
}

/// Undoes the changes of this user's killed sessions.
///
/// # Errors
///
/// The error of reading the folder, unless it does not exist; `PermissionDenied` if another user
/// can write to it.
pub fn restore(folder: &Path, machine: &impl Machine) -> io::Result<Restored> {
    let mut restored = Restored::default();
    let _exclusive = match exclusive(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(restored),
        exclusive => exclusive?,
    };
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if let Err(error) = restored.file(&path, machine) {
            restored.left.push((path, error.to_string()));
        }
    }
    Ok(restored)
}

impl Restored {
    fn file(&mut self, path: &Path, machine: &impl Machine) -> io::Result<()> {
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
        let mut journal = Vec::new();
        file.read_to_end(&mut journal)?;
        let done = match parse(&journal) {
            Content::Changes { since, changes } => {
                let mut ledger = Ledger::new(since);
                changes.into_iter().for_each(|change| ledger.add(change));
                ledger.undo(machine)
            }
            Content::Over => PutBack::default(),
            Content::Unknown => {
                return Err(io::Error::other("it is no journal of this version of daiko pair"));
            }
        };
        self.killed += 1;
        self.threads.threads += done.threads;
        self.threads.changed += done.changed;
        self.threads.refused += done.refused;
        if done.refused == 0 { fs::remove_file(path) } else { Ok(()) }
    }
}

/// The contents of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Changes of threads.
    Changes {
        /// Start time of the session, in the unit of [`ThreadId::start`].
        since: u64,
        /// The changes in order. A truncated last line was never followed by its change.
        changes: Vec<Change>,
    },
    /// No change to undo: the journal belongs to another boot, or its session was killed before any
    /// change.
    Over,
    /// No journal, or a journal of another version.
    Unknown,
}

/// The first line of the journal of a session with that start time.
pub fn head(since: u64) -> String {
    format!("{FORMAT} {} {since}\n", boot_id())
}

/// Parses a journal.
pub fn parse(journal: &[u8]) -> Content {
    let mut lines = journal.split_inclusive(|byte| *byte == b'\n');
    let head = lines.next().unwrap_or_default();
    let Some(head) = head.strip_suffix(b"\n") else {
        let is_cut = head.starts_with(FORMAT.as_bytes()) || FORMAT.as_bytes().starts_with(head);
        return if is_cut { Content::Over } else { Content::Unknown };
    };
    let words = str::from_utf8(head).ok().and_then(|head| head.strip_prefix(FORMAT));
    let words: Vec<&str> = words.unwrap_or_default().split(' ').collect();
    let ["", boot, since] = words[..] else { return Content::Unknown };
    match since.parse() {
        Err(_) => Content::Unknown,
        Ok(_) if boot != boot_id() => Content::Over,
        Ok(since) => Content::Changes { since, changes: lines.map_while(Change::parse).collect() },
    }
}

/// Locks the folder, so that one process at a time creates journals or removes those of other
/// processes. Checks its owner and mode: a journal that another user can write to could bind any
/// thread of this user.
fn exclusive(folder: &Path) -> io::Result<File> {
    let (user, metadata) = (fs::metadata("/proc/self")?.uid(), fs::symlink_metadata(folder)?);
    let why = match metadata {
        _ if !metadata.is_dir() => "it is no folder",
        _ if metadata.uid() != user => "it is another user's",
        _ if metadata.mode() & 0o022 != 0 => "other users can write to it",
        _ => {
            let folder = File::open(folder)?;
            folder.lock()?;
            return Ok(folder);
        }
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
