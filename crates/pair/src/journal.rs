//! What is to be put back, in a file: written before the first change, kept until the last is undone.
//!
//! 1. A session has a file of its own in a folder that only its user can write to, and holds a lock on it. The first line says
//!    which start of the machine it belongs to, and when the session began.
//! 2. Before a thread is bound a line says which thread, how it was allowed to run, and how it will be. So does one for each
//!    thread that had been bound to fewer CPUs before, which is left alone.
//! 3. A session that ends and [`restore`], which finds a file without a lock, do the same: a thread is put back if it is allowed
//!    to run as one of its lines says that it would be: whoever has changed that since then has had the last word. So is a
//!    thread that was started meanwhile, and has inherited it.

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
    ledger: Ledger,
}

impl Journal {
    /// A new one in `folder`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// What the file system reports; `PermissionDenied` also if others can write to the folder.
    pub fn create(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let _exclusive = exclusive(folder)?;
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
        let since = ThreadId::of_process(std::process::id())?.start;
        file.write_all(head(since).as_bytes())?;
        Ok(Self { path, file, ledger: Ledger::new(since) })
    }

    /// Notes a change before it is made, unless it was noted before.
    ///
    /// # Errors
    ///
    /// What the file system reports: the change is not to be made then.
    pub fn note(&mut self, thread: ThreadId, before: &CpuSet, during: &CpuSet) -> io::Result<()> {
        let change = Change { thread, before: before.clone(), during: during.clone() };
        if !self.ledger.has(&change) {
            self.file.write_all(format!("{change}\n").as_bytes())?;
            self.ledger.add(change);
        }
        Ok(())
    }

    /// All that was noted.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Puts all threads back, and removes it; it stays, for another attempt, if one cannot be put back.
    ///
    /// # Errors
    ///
    /// What the file system reports when all is put back.
    pub fn finish(self, machine: &dyn Machine) -> io::Result<PutBack> {
        let done = self.ledger.undo(machine);
        if done.refused == 0 {
            fs::remove_file(&self.path)?;
        }
        Ok(done)
    }
}

/// What became of sessions that were killed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Sessions that go on, which were left alone.
    pub running: usize,
    /// Sessions that were killed.
    pub killed: usize,
    /// Their threads; where one was refused, its journal is kept.
    pub threads: PutBack,
    /// Files that were left as they are, with the reason.
    pub left: Vec<(PathBuf, String)>,
}

/// Undoes what killed sessions of this user have left.
///
/// # Errors
///
/// What the file system reports of the folder, but for one that is not there; `PermissionDenied` if others can write to it.
pub fn restore(folder: &Path, machine: &dyn Machine) -> io::Result<Restored> {
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

/// What is in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Changes of threads.
    Changes {
        /// When its session began, as [`ThreadId::start`].
        since: u64,
        /// In their order. A last line that is cut short was never followed by its change.
        changes: Vec<Change>,
    },
    /// Nothing that is left: it is of another start of the machine, or its session was killed before it changed anything.
    Over,
    /// It is no journal, or one of another version.
    Unknown,
}

/// The first line of the journal of a session that began then.
pub fn head(since: u64) -> String {
    format!("{FORMAT} {} {since}\n", boot_id())
}

/// Reads a journal.
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

/// The folder, for one at a time who makes or removes files of others. A journal that others can write to could bind any
/// thread of this user.
fn exclusive(folder: &Path) -> io::Result<File> {
    let (user, metadata) = (fs::metadata("/proc/self")?.uid(), fs::symlink_metadata(folder)?);
    let why = match metadata {
        _ if !metadata.is_dir() => "it is no folder",
        _ if metadata.uid() != user => "it is another user's",
        _ if metadata.mode() & 0o022 != 0 => "others can write to it",
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
