//! The entries of a directory.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use crate::blocking;

/// Number of entries that one call of the pool fetches.
const BATCH: usize = 256;

/// Returns the entries of a directory, as [`std::fs::read_dir`] does.
///
/// # Errors
///
/// Those of [`std::fs::read_dir`].
///
/// # Examples
///
/// ```
/// # daiko::run(|| {
/// let entries = daiko::fs::read_dir("/proc/self")?.collect::<Result<Vec<_>, _>>()?;
/// assert!(entries.iter().any(|entry| entry.file_name() == "status"));
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let rest = blocking(|| fs::read_dir(path))?;
    Ok(ReadDir { fetched: VecDeque::new(), rest: Some(rest) })
}

/// The iterator that [`read_dir`] returns.
#[derive(Debug)]
pub struct ReadDir {
    fetched: VecDeque<io::Result<fs::DirEntry>>,
    /// `None` once all were fetched.
    rest: Option<fs::ReadDir>,
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.fetched.is_empty()
            && let Some(rest) = &mut self.rest
        {
            self.fetched = blocking(|| rest.take(BATCH).collect());
            if self.fetched.len() < BATCH {
                self.rest = None;
            }
        }
        Some(self.fetched.pop_front()?.map(DirEntry))
    }
}

/// An entry of a directory, as [`std::fs::DirEntry`].
#[derive(Debug)]
pub struct DirEntry(fs::DirEntry);

impl DirEntry {
    /// Returns the path: that of the directory, as it was given, and the name.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// Returns the name.
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// Returns the number of the inode.
    pub fn ino(&self) -> u64 {
        self.0.ino()
    }

    /// Returns the metadata of the file or the link.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::DirEntry::metadata`].
    pub fn metadata(&self) -> io::Result<Metadata> {
        blocking(|| self.0.metadata())
    }

    /// Returns the type of the file or the link.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::DirEntry::file_type`].
    pub fn file_type(&self) -> io::Result<FileType> {
        // Some file systems do not name types in directories.
        blocking(|| self.0.file_type())
    }
}
