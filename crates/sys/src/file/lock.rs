//! The lock that decides about a file's name.

use std::fs::{self, TryLockError};
use std::io::ErrorKind::Interrupted;
use std::ops::Deref;

use super::{FileError, SharedFile, failed};

/// The exclusive right to decide about a file, by `flock`. Ends with its holder.
///
/// A file left by dead processes is taken over in these steps: open it, lock it, check that it
/// still [has its name](SharedFile::has_its_name) and is unused, [remove](Self::remove) it, create
/// its successor. Of several processes that do so, one removes the file. The other processes, which
/// waited for the lock of a file that has no name any more, start again.
///
/// The lock belongs to the open file, which a child forked meanwhile shares. If the parent is
/// killed, the child keeps the lock, and the child can take it again without waiting for the
/// parent.
///
/// # Examples
///
/// ```
/// use daiko_sys::file::SharedFile;
///
/// let name = format!("daiko-lock-{}", std::process::id());
/// let mut stale = SharedFile::create(&name, 4096)?;
/// let lock = stale.lock()?;
/// assert!(SharedFile::open(&name)?.try_lock()?.is_none());
/// assert!(lock.has_its_name()? && lock.remove()?);
///
/// let mut fresh = SharedFile::create(&name, 4096)?;
/// assert!(!stale.lock()?.remove()?, "the name is the successor's");
/// assert!(fresh.lock()?.remove()?);
/// # Ok::<(), daiko_sys::file::FileError>(())
/// ```
#[derive(Debug)]
pub struct FileLock<'a> {
    /// Borrowed exclusively, because a second `flock` of the same open file would not wait.
    file: &'a mut SharedFile,
}

impl SharedFile {
    /// Waits until the lock is free, even if its holder is stopped, and takes it.
    ///
    /// # Errors
    ///
    /// The error of `flock` if a file system or filter refuses it.
    pub fn lock(&mut self) -> Result<FileLock<'_>, FileError> {
        loop {
            match self.file.lock() {
                Ok(()) => return Ok(FileLock { file: self }),
                Err(error) if error.kind() == Interrupted => {}
                Err(error) => return Err(failed(&self.path, error)),
            }
        }
    }

    /// Takes the lock if it is free; `None` otherwise.
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::lock`].
    pub fn try_lock(&mut self) -> Result<Option<FileLock<'_>>, FileError> {
        match self.file.try_lock() {
            Ok(()) => Ok(Some(FileLock { file: self })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&self.path, error)),
        }
    }
}

impl FileLock<'_> {
    /// Removes the file's name if the file still has it; returns `false` if not.
    ///
    /// Processes that have the file open keep it. No process that holds such a lock can rename or
    /// remove the file between the comparison and the removal; a process without the lock (`rm`,
    /// `mv`) can.
    ///
    /// # Errors
    ///
    /// The error of reading the path or changing the directory.
    pub fn remove(self) -> Result<bool, FileError> {
        if !self.has_its_name()? {
            return Ok(false);
        }
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&self.path, error)),
        }
    }
}

impl Deref for FileLock<'_> {
    type Target = SharedFile;

    fn deref(&self) -> &SharedFile {
        self.file
    }
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        // Fails for a bad descriptor only.
        let _ = self.file.file.unlock();
    }
}
