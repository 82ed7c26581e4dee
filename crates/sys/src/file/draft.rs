//! Files without a name so far.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{FileError, Guarded, Permitted, Populate, Reason, SharedFile, allocate, failed};
use crate::memory::Mapping;

/// A file of shared memory that has all its pages but no name, so no other process can open it.
///
/// A draft that is dropped, or left by a killed process, disappears.
///
/// # Examples
///
/// ```
/// use daiko_sys::file::{Populate, SharedFile};
///
/// let name = format!("daiko-draft-{}", std::process::id());
/// let draft = SharedFile::draft(&name, 4096)?;
/// // SAFETY: the mapping is live, and it is the only one.
/// unsafe { draft.map(Populate::OnUse)?.start().write(7) };
/// let mut file = draft.publish()?;
/// // SAFETY: as above.
/// assert_eq!(unsafe { SharedFile::open(&name)?.map(Populate::OnUse)?.start().read() }, 7);
/// assert!(file.lock()?.remove()?);
/// # Ok::<(), daiko_sys::file::FileError>(())
/// ```
#[derive(Debug)]
pub struct Draft(SharedFile);

impl Draft {
    pub(super) fn new(
        path: PathBuf,
        bytes: usize,
        permitted: &Permitted,
    ) -> Result<Self, FileError> {
        // Publishing detects this as well, but only after all pages were allocated in vain.
        if fs::symlink_metadata(&path).is_ok() {
            return Err(FileError::new(&path, Reason::Taken));
        }
        let file = unnamed(&path)?;
        permitted.grant(&file, &path)?;
        let size = allocate(&file, &path, bytes)?;
        Ok(Self(SharedFile { file, path, size }))
    }

    /// The size in bytes, whole pages.
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// Maps the draft like [`SharedFile::map`].
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::map`].
    pub fn map(&self, populate: Populate) -> Result<Mapping, FileError> {
        self.0.map(populate)
    }

    /// Maps the draft like [`SharedFile::map_guarded`].
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::map_guarded`].
    pub fn map_guarded(&self, populate: Populate) -> Result<Guarded, FileError> {
        self.0.map_guarded(populate)
    }

    /// Gives the file its name, in one step.
    ///
    /// # Errors
    ///
    /// [`Reason::Taken`] if another process took the name first; the draft is gone then.
    pub fn publish(self) -> Result<SharedFile, FileError> {
        let Self(file) = self;
        let descriptor = format!("/proc/self/fd/{}", file.file.as_raw_fd());
        let [from, to] = [descriptor.as_bytes(), file.path.as_os_str().as_bytes()]
            .map(|path| CString::new(path).expect("`resolve` refuses zero bytes"));
        let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both paths are live and end in a zero byte.
        match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) } {
            0 => Ok(file),
            _ => Err(in_directory(&file.path, std::io::Error::last_os_error())),
        }
    }
}

/// Opens a file without a name in the directory of `path`.
fn unnamed(path: &Path) -> Result<File, FileError> {
    let directory = path.parent().expect("`resolve` returns absolute paths of files");
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(directory)
        .map_err(|error| in_directory(path, error))
}

/// Translates an error of creating the file at `path`.
fn in_directory(path: &Path, error: std::io::Error) -> FileError {
    match error.raw_os_error() {
        Some(libc::ENOENT) => FileError::new(path, Reason::NoDirectory),
        // File systems without unnamed files return this, as the flag contains O_DIRECTORY.
        Some(libc::EISDIR) => FileError::new(path, Reason::Unsupported),
        _ => failed(path, error),
    }
}
