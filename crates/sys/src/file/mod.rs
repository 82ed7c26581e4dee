//! Files of shared memory: created as a whole or not at all, opened with suspicion.
//!
//! A file exists under its name only once it has all its memory and its creator's first contents:
//! it is created without a name (`O_TMPFILE`), allocated (`fallocate`), filled, and then linked,
//! which fails if the name is taken. So a full file system is an error at creation, never a SIGBUS
//! later; of several creators one wins; and a creator killed half-way leaves nothing.
//!
//! One risk remains: any process of a user that may use the file can truncate a file that has a
//! name. A [`Guarded`] mapping survives that. The seals of a memfd prevent it.
//!
//! A file is for the user of its creator, unless the creator and the processes that open it
//! [permit](Permitted) other users.

mod draft;
mod error;
mod guarded;
mod lock;
mod mark;
mod memfd;
mod permitted;

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::memory::{self, Mapping};

pub use draft::Draft;
use error::failed;
pub use error::{FileError, Grantee, Reason};
pub use guarded::{Guarded, MOST_GUARDED};
pub use lock::FileLock;
pub use mark::FileMarks;
pub use permitted::Permitted;

/// The time at which the pages of a mapped file enter this process's page tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Populate {
    /// Each page at its first use, which faults.
    OnUse,
    /// All at once, before the mapping is returned.
    Now,
}

/// Allots blocks to the first `len` bytes of a file, and extends it to that length if it is
/// shorter.
///
/// # Errors
///
/// The error of `posix_fallocate`: among others, there is no room.
pub fn allot(fd: BorrowedFd<'_>, len: u64) -> io::Result<()> {
    let Ok(len) = libc::off64_t::try_from(len) else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    // SAFETY: takes plain integers.
    match unsafe { libc::posix_fallocate64(fd.as_raw_fd(), 0, len) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// A file of shared memory, open for reading and writing.
///
/// A name without a slash means `/dev/shm/NAME`; any other name is a path.
///
/// # Examples
///
/// ```
/// use daiko_sys::file::{Populate, Reason, SharedFile};
///
/// let name = format!("daiko-example-{}", std::process::id());
/// let mut file = SharedFile::create(&name, 4096)?;
/// assert_eq!(SharedFile::create(&name, 4096).unwrap_err().reason(), Reason::Taken);
///
/// let (here, there) = (file.map(Populate::Now)?, SharedFile::open(&name)?.map(Populate::OnUse)?);
/// // SAFETY: both mappings are live and of this one thread.
/// unsafe {
///     here.start().write(7);
///     assert_eq!(there.start().read(), 7);
/// }
/// assert!(file.lock()?.remove()?);
/// # Ok::<(), daiko_sys::file::FileError>(())
/// ```
#[derive(Debug)]
pub struct SharedFile {
    file: File,
    path: PathBuf,
    size: usize,
}

impl SharedFile {
    /// Creates a file of at least `bytes` bytes, whole pages of zeros, for this user only (mode
    /// 0600).
    ///
    /// [`SharedFile::draft`] creates one with contents.
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::draft`] and [`Draft::publish`].
    pub fn create(name: impl AsRef<Path>, bytes: usize) -> Result<Self, FileError> {
        Self::draft(name, bytes)?.publish()
    }

    /// Creates a file like [`SharedFile::create`], but invisible until [`Draft::publish`].
    ///
    /// # Errors
    ///
    /// [`Reason::Taken`] if there is such a file already, [`Reason::Full`] if there is no room for
    /// it, and all other variants of [`Reason`] except those that concern opening.
    pub fn draft(name: impl AsRef<Path>, bytes: usize) -> Result<Draft, FileError> {
        Self::draft_for(&Permitted::default(), name, bytes)
    }

    /// Creates a file like [`SharedFile::draft`], for the permitted users.
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::draft`]; [`Reason::NoList`] if the file system has no
    /// access-control lists, which more than one user or group takes.
    pub fn draft_for(
        permitted: &Permitted,
        name: impl AsRef<Path>,
        bytes: usize,
    ) -> Result<Draft, FileError> {
        Draft::new(resolve(name.as_ref())?, bytes, permitted)
    }

    /// Opens the file that has this name and belongs to this user.
    ///
    /// Files of other users are refused, to root as well: in a directory such as `/dev/shm` any
    /// user may put a file where a service is going to look for its own. Files that other users may
    /// use are refused, too: [`SharedFile::open_for`] opens them. Only the last component of the
    /// path must not be a symbolic link.
    ///
    /// # Errors
    ///
    /// [`Reason::Missing`], [`Reason::Denied`], [`Reason::NotAFile`], [`Reason::Linked`],
    /// [`Reason::Empty`], [`Reason::Exposed`].
    pub fn open(name: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::open_for(&Permitted::default(), name)
    }

    /// Opens a file like [`SharedFile::open`], of the permitted users alone.
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::open`].
    pub fn open_for(permitted: &Permitted, name: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = resolve(name.as_ref())?;
        // The first check comes before the open, because opening a device may have effects. The
        // flags and the second check are for a file that is replaced in between.
        let metadata = fs::symlink_metadata(&path).map_err(|error| failed(&path, error))?;
        check(&path, &metadata, permitted)?;
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
        let file = Self::over(file.map_err(|error| failed(&path, error))?, path, permitted)?;
        permitted.check_grants(&file.file, &file.path)?;
        Ok(file)
    }

    /// Takes an open file of any kind, unless [`check`] refuses it.
    fn over(file: File, path: PathBuf, permitted: &Permitted) -> Result<Self, FileError> {
        let metadata = file.metadata().map_err(|error| failed(&path, error))?;
        check(&path, &metadata, permitted)?;
        // A size beyond the address space is refused when the file is mapped.
        let size = usize::try_from(metadata.size()).unwrap_or(usize::MAX);
        Ok(Self { file, path, size })
    }

    /// The size in bytes when the file was opened.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The absolute path by which the file was opened; of a memfd only its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Maps the whole file at a place that the kernel chooses, shared with all processes that map
    /// it.
    ///
    /// Touching a page behind the end of a file that was truncated meanwhile raises SIGBUS:
    /// [`SharedFile::map_guarded`] is for files that another process may truncate.
    ///
    /// # Errors
    ///
    /// [`Reason::Memory`] names the limit that refused the addresses or the pages.
    pub fn map(&self, populate: Populate) -> Result<Mapping, FileError> {
        map(&self.file, self.size, populate)
            .map_err(|error| FileError::new(&self.path, Reason::Memory(error)))
    }

    /// Maps the file like [`SharedFile::map`], but missing pages read as zero instead of raising a
    /// signal.
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::map`]; [`Reason::TooMany`] beyond [`MOST_GUARDED`].
    pub fn map_guarded(&self, populate: Populate) -> Result<Guarded, FileError> {
        Guarded::new(self.map(populate)?).map_err(|reason| FileError::new(&self.path, reason))
    }

    /// Returns true if the path still leads to this file, not to a successor or nowhere.
    ///
    /// The answer holds until a process removes or renames the file: see [`FileLock`].
    ///
    /// # Errors
    ///
    /// The error of reading the path.
    pub fn has_its_name(&self) -> Result<bool, FileError> {
        let mine = self.file.metadata().map_err(|error| failed(&self.path, error))?;
        match fs::symlink_metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (mine.dev(), mine.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&self.path, error)),
        }
    }
}

/// Returns true if a file, of any user, is mapped without the page cache in between (DAX). False
/// before Linux 5.8, which does not report it.
///
/// # Errors
///
/// The error of `statx`.
pub fn is_dax(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // No fields are requested, and only information that the file system has without asking a
    // server.
    let (flags, nothing) = (libc::AT_STATX_DONT_SYNC, 0);
    // SAFETY: zero is a valid `statx`, and the result goes to a live local.
    unsafe {
        let mut told: libc::statx = std::mem::zeroed();
        match libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, nothing, &mut told) {
            0 => Ok(told.stx_attributes & libc::STATX_ATTR_DAX as u64 != 0),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl AsFd for SharedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Refuses a file that is not a file of memory created by a permitted user.
fn check(path: &Path, metadata: &fs::Metadata, permitted: &Permitted) -> Result<(), FileError> {
    let reason = if !metadata.is_file() {
        Reason::NotAFile { kind: kind(metadata.file_type()) }
    } else if !permitted.is_owner(metadata.uid()) {
        Reason::Denied { owner: Some(metadata.uid()) }
    } else if metadata.nlink() > 1 {
        // Another file of its owner, perhaps, which a user has put in the place of the right one.
        Reason::Linked
    } else if metadata.size() == 0 {
        Reason::Empty
    } else {
        return Ok(());
    };
    Err(FileError::new(path, reason))
}

fn kind(file_type: fs::FileType) -> &'static str {
    let kinds = [
        (file_type.is_dir(), "a directory"),
        (file_type.is_symlink(), "a symbolic link"),
        (file_type.is_fifo(), "a pipe"),
        (file_type.is_socket(), "a socket"),
    ];
    kinds.into_iter().find_map(|(is, kind)| is.then_some(kind)).unwrap_or("a device")
}

/// The absolute path for `name`.
fn resolve(name: &Path) -> Result<PathBuf, FileError> {
    let bytes = name.as_os_str().as_bytes();
    let bad = || FileError::new(name, Reason::BadName);
    if bytes.contains(&0) || bytes.ends_with(b"/") || name.file_name().is_none() {
        return Err(bad());
    }
    if !bytes.contains(&b'/') {
        return Ok(Path::new("/dev/shm").join(name));
    }
    std::path::absolute(name).map_err(|_| bad())
}

fn map(file: &File, size: usize, populate: Populate) -> Result<Mapping, memory::MemoryError> {
    let mapping = Mapping::of_file(file.as_fd(), size)?;
    if populate == Populate::Now {
        memory::populate(mapping.start(), mapping.len())?;
    }
    Ok(mapping)
}

/// Allocates at least `bytes` bytes to `file` and returns the number allocated.
fn allocate(file: &File, path: &Path, bytes: usize) -> Result<usize, FileError> {
    let error = |reason| Err(FileError::new(path, reason));
    let full = Reason::Full { bytes };
    let size = memory::whole_pages(bytes.max(1)).filter(|&size| size <= isize::MAX as usize);
    let Some(size) = size.filter(|&size| !exceeds_memory(file, size)) else { return error(full) };
    // Beyond this limit the kernel refuses and also sends SIGXFSZ.
    let limit = crate::limits::rlimit(crate::limits::Resource::FileSize);
    if limit.is_some_and(|limit| size as u64 > limit) {
        return error(Reason::SizeLimit { bytes });
    }
    loop {
        // SAFETY: this call takes plain integers and changes the file only.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, size as libc::off_t) } == 0 {
            return Ok(size);
        }
        match crate::thread::errno() {
            libc::EINTR => {}
            libc::ENOSPC | libc::ENOMEM | libc::EFBIG | libc::EDQUOT => return error(full),
            errno => return Err(FileError::diagnose(path, errno)),
        }
    }
}

/// Returns true if a file in memory would exceed free memory. The kernel would notice only once
/// nothing is left, and then kill a process.
fn exceeds_memory(file: &File, size: usize) -> bool {
    // SAFETY: zero is a valid `statfs`, and the result goes to a live local.
    let in_memory = unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &mut system) == 0 && system.f_type == libc::TMPFS_MAGIC
    };
    let info = crate::limits::text(Path::new("/proc/meminfo")).filter(|_| in_memory);
    let free = info.and_then(|info| {
        let field = |name| crate::limits::kib_field(&info, name);
        Some(field("MemAvailable")?.saturating_add(field("SwapFree").unwrap_or(0)))
    });
    free.is_some_and(|kib| size as u64 / 1024 > kib)
}

#[cfg(test)]
mod tests;
