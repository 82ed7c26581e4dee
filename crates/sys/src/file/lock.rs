//! Who may decide about a file.

use std::fs::{self, TryLockError};
use std::io::ErrorKind::Interrupted;
use std::ops::Deref;

use super::{FileError, SharedFile, failed};

/// The exclusive right to decide about a file, among those who ask for it (`flock`); ends with its holder.
///
/// A file whose processes are all dead is taken over by: open it, lock it, see whether it
/// [has its name](SharedFile::has_its_name) still, see that nobody uses it, [remove](Self::remove)
/// it, create its successor. Of several who do so, one removes it; the others, who waited for the
/// lock of what is no longer there, begin anew.
///
/// The lock belongs to the open file, which a process that is forked meanwhile shares: it keeps
/// the lock if its parent is killed, and takes it again without waiting for the other.
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
    /// Waits until nobody else holds the lock, also one who is stopped, and takes it.
    ///
    /// # Errors
    ///
    /// What `flock` reports where a file system or filter refuses it.
    pub fn lock(&mut self) -> Result<FileLock<'_>, FileError> {
        loop {
            match self.file.lock() {
                Ok(()) => return Ok(FileLock { file: self }),
                Err(error) if error.kind() == Interrupted => {}
                Err(error) => return Err(failed(&self.path, error)),
            }
        }
    }

    /// Takes the lock unless somebody holds it; `None` then.
    ///
    /// # Errors
    ///
    /// As of [`SharedFile::lock`].
    pub fn try_lock(&mut self) -> Result<Option<FileLock<'_>>, FileError> {
        match self.file.try_lock() {
            Ok(()) => Ok(Some(FileLock { file: self })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&self.path, error)),
        }
    }
}

impl FileLock<'_> {
    /// Takes the file's name away, if it has it still; `false` if not.
    ///
    /// Those who have the file open keep it. Nobody who removes by such a lock can do so between
    /// the comparison and the removal; who renames or removes without one (`rm`, `mv`) can.
    ///
    /// # Errors
    ///
    /// Why the path cannot be looked at, or the directory not be changed.
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
        // It can fail for a bad descriptor only.
        let _ = self.file.file.unlock();
    }
}
