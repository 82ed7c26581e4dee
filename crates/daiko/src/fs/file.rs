//! An open file.
//!
//! Budget of a read from the page cache: one relaxed load beside the system call.

use std::fs::{self, FileTimes, Metadata, Permissions, TryLockError};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use daiko_sys::page_cache::{self, CachedRead};
use daiko_sys::selector::FileOperation;

use super::OpenOptions;
use super::by_kernel::by_kernel;
use super::medium::{KnownMedium, Medium};
use crate::{blocking, caller};

/// An open file, as [`std::fs::File`].
///
/// [`FileExt`] has reads and writes with an offset. A file is closed when it is dropped, by the
/// fiber itself; errors of that are ignored, so synchronise before.
///
/// # Examples
///
/// ```
/// # daiko::run(|| {
/// use daiko::fs::File;
/// use std::os::unix::fs::FileExt;
///
/// let status = File::open("/proc/self/status")?;
/// let mut name = [0; 5];
/// status.read_exact_at(&mut name, 0)?;
/// assert_eq!(&name, b"Name:");
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct File {
    file: fs::File,
    medium: KnownMedium,
}

impl File {
    /// Opens a file, on a thread that may wait.
    pub(super) fn open_with(options: &fs::OpenOptions, path: &Path) -> io::Result<Self> {
        let file = options.open(path)?;
        let medium = KnownMedium::of(file.as_fd());
        Ok(Self { file, medium })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::open`].
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing, and creates or empties it.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::create`].
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file for reading and writing.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::create_new`], which fails if there is a file of that name.
    pub fn create_new(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Returns options for opening a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Writes all contents and metadata to the device (`fsync`).
    ///
    /// # Errors
    ///
    /// The error of `fsync`. The kernel tells an earlier failure of a write once and may have
    /// dropped the data, so that a second call succeeds: take an error for a loss.
    pub fn sync_all(&self) -> io::Result<()> {
        self.synchronise(FileOperation::SyncAll, fs::File::sync_all)
    }

    /// Writes all contents to the device, with the metadata that reads need (`fdatasync`).
    ///
    /// # Errors
    ///
    /// As [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> io::Result<()> {
        self.synchronise(FileOperation::SyncData, fs::File::sync_data)
    }

    /// Cuts the file off after `len` bytes, or extends it by zeros.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_len`].
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.perform(|| self.file.set_len(len))
    }

    /// Allots blocks to the first `len` bytes and extends the file to that length, so that writes
    /// there do not fail for lack of room (`posix_fallocate`).
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] if there is no room; the error of `posix_fallocate`.
    ///
    /// # Examples
    ///
    /// ```
    /// # daiko::run(|| {
    /// let path = std::env::temp_dir().join(format!("daiko-allotted-{}", std::process::id()));
    /// let file = daiko::fs::File::create_new(&path)?;
    /// file.preallocate(8192)?;
    /// assert_eq!(file.metadata()?.len(), 8192);
    /// daiko::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn preallocate(&self, len: u64) -> io::Result<()> {
        self.perform(|| daiko_sys::file::allot(self.file.as_fd(), len))
    }

    /// Returns the metadata of the file.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::metadata`].
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.perform(|| self.file.metadata())
    }

    /// Sets the permissions of the file.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_permissions`].
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.perform(|| self.file.set_permissions(permissions))
    }

    /// Sets the times of the file.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_times`].
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.perform(|| self.file.set_times(times))
    }

    /// Locks the file, as soon as no other open file has a lock on it (`flock`).
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::lock`].
    pub fn lock(&self) -> io::Result<()> {
        blocking(|| self.file.lock())
    }

    /// Locks the file for readers, as soon as no other open file has an exclusive lock on it.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::lock_shared`].
    pub fn lock_shared(&self) -> io::Result<()> {
        blocking(|| self.file.lock_shared())
    }

    /// Locks the file, unless another open file has a lock on it.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::try_lock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # daiko::run(|| {
    /// use daiko::fs::File;
    ///
    /// let path = std::env::temp_dir().join(format!("daiko-lock-{}", std::process::id()));
    /// let (one, other) = (File::create(&path)?, File::create(&path)?);
    /// one.try_lock()?;
    /// assert!(other.try_lock().is_err());
    /// drop(one);
    /// other.try_lock()?;
    /// daiko::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.try_lock_with(fs::File::try_lock)
    }

    /// Locks the file for readers, unless another open file has an exclusive lock on it.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::try_lock_shared`].
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.try_lock_with(fs::File::try_lock_shared)
    }

    fn try_lock_with(
        &self,
        lock: fn(&fs::File) -> Result<(), TryLockError>,
    ) -> Result<(), TryLockError> {
        // A file system of a network asks the server.
        self.perform(|| Ok(lock(&self.file))).map_err(TryLockError::Error).flatten()
    }

    /// Releases the lock, as closing the file does.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::unlock`].
    pub fn unlock(&self) -> io::Result<()> {
        self.perform(|| self.file.unlock())
    }

    /// Returns another handle of the same open file, with which it shares the position.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::try_clone`].
    pub fn try_clone(&self) -> io::Result<Self> {
        let file = self.file.try_clone()?;
        Ok(Self { file, medium: self.medium.same() })
    }

    /// Returns the file of `std`. Its calls block.
    pub fn into_std(self) -> fs::File {
        self.file
    }

    /// Makes a call that may wait for the device.
    #[inline]
    fn perform<R: Send>(&self, call: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
        match self.medium.get() {
            Medium::Memory => call(),
            Medium::Cached | Medium::Device => blocking(call),
        }
    }

    fn synchronise(
        &self,
        operation: FileOperation,
        call: impl Fn(&fs::File) -> io::Result<()> + Send + Sync,
    ) -> io::Result<()> {
        if self.medium.get() == Medium::Memory {
            return call(&self.file);
        }
        loop {
            // SAFETY: it uses no memory.
            match unsafe { by_kernel(self.file.as_fd(), operation) } {
                None => return blocking(|| call(&self.file)),
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Some(done) => return done.map(drop),
            }
        }
    }

    /// Reads from the page cache. Returns `None` if a call that may wait has to follow.
    #[inline]
    fn read_cached(&self, bytes: &mut [u8], offset: Option<u64>) -> io::Result<Option<usize>> {
        if self.medium.get() == Medium::Cached && caller::try_caller().is_some() {
            match page_cache::read(self.file.as_fd(), bytes, offset)? {
                CachedRead::Read(read) => return Ok(Some(read)),
                CachedRead::Waits => {}
                CachedRead::Unsupported => self.medium.cannot_tell(),
            }
        }
        Ok(None)
    }

    /// Lets the kernel make the call, if it has an offset.
    ///
    /// # Safety
    ///
    /// As for [`by_kernel`].
    unsafe fn at_offset(&self, operation: FileOperation) -> Option<io::Result<usize>> {
        if !self.medium.has_offsets() {
            return None;
        }
        // SAFETY: by this function's contract.
        unsafe { by_kernel(self.file.as_fd(), operation) }
    }
}

impl Read for &File {
    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.read_cached(bytes, None)? {
            Some(read) => Ok(read),
            // By the pool: two requests of a ring may read from the same position.
            None => self.perform(|| (&self.file).read(bytes)),
        }
    }
}

impl Write for &File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.perform(|| (&self.file).write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.perform(|| (&self.file).write_vectored(parts))
    }

    /// Does nothing: no bytes are kept. [`File::sync_data`] writes to the device.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            // A file system of a network asks the server for the length.
            SeekFrom::End(_) => self.perform(|| (&self.file).seek(to)),
            SeekFrom::Start(_) | SeekFrom::Current(_) => (&self.file).seek(to),
        }
    }
}

impl Read for File {
    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&*self).read(bytes)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

impl FileExt for File {
    #[inline]
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(read) = self.read_cached(bytes, Some(offset))? {
            return Ok(read);
        }
        // SAFETY: the memory is borrowed for writing until this returns.
        match unsafe { self.at_offset(FileOperation::Read { bytes, offset }) } {
            Some(read) => read,
            None => self.perform(|| self.file.read_at(bytes, offset)),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // SAFETY: the memory is borrowed until this returns.
        match unsafe { self.at_offset(FileOperation::Write { bytes, offset }) } {
            Some(written) => written,
            None => self.perform(|| self.file.write_at(bytes, offset)),
        }
    }
}

/// Reads and writes of a file on tmpfs take the pool as well, as the kernel is not asked for the
/// file system: that might wait.
impl From<fs::File> for File {
    fn from(file: fs::File) -> Self {
        let medium = KnownMedium::unknown(file.as_fd());
        Self { file, medium }
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        fs::File::from(fd).into()
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> Self {
        file.file.into()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        self.file.into_raw_fd()
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: by the contract of this function, which is the same.
        unsafe { fs::File::from_raw_fd(fd) }.into()
    }
}
