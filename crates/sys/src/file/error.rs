//! Reasons for refusing a shared file, with their remedies.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::memory::MemoryError;

/// A refused shared file and the reason. Its message is one line and names the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    path: PathBuf,
    reason: Reason,
}

/// A user, or several, that a file grants access to besides its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grantee {
    /// The user with this id.
    User(u32),
    /// The members of the group with this id.
    Group(u32),
    /// All users of the machine.
    Everyone,
}

impl fmt::Display for Grantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => write!(f, "user {id}"),
            Self::Group(id) => write!(f, "group {id}"),
            Self::Everyone => f.write_str("all users"),
        }
    }
}

/// The reason why a shared file was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No file can have this name.
    BadName,
    /// The name is taken.
    Taken,
    /// No file has this name.
    Missing,
    /// The directory of the new file does not exist.
    NoDirectory,
    /// The file belongs to another user, or the directory grants no access.
    Denied {
        /// The user that owns the file, if the file exists and may be inspected.
        owner: Option<u32>,
    },
    /// Something that is not a regular file has this name.
    NotAFile {
        /// The type of the file.
        kind: &'static str,
    },
    /// The file grants access to users that the caller does not permit.
    Exposed {
        /// The users.
        to: Grantee,
    },
    /// The file has another name, too: it may be another file in the place of the right one.
    Linked,
    /// The file system has no access-control lists, which several users or groups take.
    NoList,
    /// No user or group can have the requested id.
    BadId,
    /// The file is empty.
    Empty,
    /// The file system, or the machine's memory, lacks room for that many bytes.
    Full {
        /// The requested size.
        bytes: usize,
    },
    /// `RLIMIT_FSIZE` would be exceeded.
    SizeLimit {
        /// The requested size.
        bytes: usize,
    },
    /// The file system cannot make unnamed files or allocate in advance.
    Unsupported,
    /// The descriptor's seals do not fix its size.
    Unsealed,
    /// Too many files are mapped with a guard in this process.
    TooMany,
    /// The mapping failed.
    Memory(MemoryError),
    /// The kernel refused for a reason of its own.
    Refused {
        /// The kernel's error number.
        errno: i32,
    },
}

impl FileError {
    /// Creates the error `reason` for the file at `path`.
    pub fn new(path: &Path, reason: Reason) -> Self {
        Self { path: path.to_owned(), reason }
    }

    /// Translates `errno` for a file of this name.
    pub fn diagnose(path: &Path, errno: i32) -> Self {
        let reason = match errno {
            libc::EEXIST => Reason::Taken,
            libc::ENOENT => Reason::Missing,
            libc::ENAMETOOLONG => Reason::BadName,
            libc::ENOTDIR => Reason::NoDirectory,
            libc::EACCES | libc::EPERM | libc::EROFS => Reason::Denied { owner: owner(path) },
            libc::ELOOP => Reason::NotAFile { kind: "a symbolic link" },
            libc::EISDIR => Reason::NotAFile { kind: "a directory" },
            libc::ENXIO => Reason::NotAFile { kind: "a socket or device" },
            libc::EOPNOTSUPP => Reason::Unsupported,
            errno => Reason::Refused { errno },
        };
        Self::new(path, reason)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The reason.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

/// Translates an error of a call for the file at `path`.
pub(super) fn failed(path: &Path, error: io::Error) -> FileError {
    FileError::diagnose(path, error.raw_os_error().unwrap_or(libc::EIO))
}

fn owner(path: &Path) -> Option<u32> {
    Some(fs::symlink_metadata(path).ok()?.uid())
}

// Paths are written by `Debug`, which escapes line breaks.
impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match self.reason {
            Reason::BadName => {
                write!(f, "no file can be named {path:?}: use NAME for /dev/shm/NAME, or a path")
            }
            Reason::Taken => {
                write!(f, "{path:?} exists already: open it, remove it, or choose another name")
            }
            Reason::Missing => {
                write!(
                    f,
                    "{path:?} does not exist: start the program that creates it first, or check the name"
                )
            }
            Reason::NoDirectory => write!(f, "{path:?} lies in no directory: create that first"),
            Reason::Denied { owner: Some(owner) } => {
                write!(
                    f,
                    "permission denied for {path:?}, of user {owner}: run as that user, permit it (SegmentOptions::user), or choose another name"
                )
            }
            Reason::Denied { owner: None } => {
                write!(
                    f,
                    "permission denied for {path:?}: choose a directory that this user may write to"
                )
            }
            Reason::NotAFile { kind } => {
                write!(f, "{path:?} is {kind}, not a file: choose another name")
            }
            Reason::Exposed { to } => {
                write!(
                    f,
                    "{path:?} may be used by {to}, too: permit that (SegmentOptions), or remove it and have it created anew"
                )
            }
            Reason::Linked => {
                write!(
                    f,
                    "{path:?} has a second name: remove that (find -samefile), or choose another name"
                )
            }
            Reason::NoList => {
                write!(
                    f,
                    "the file system of {path:?} has no access-control lists: permit one group of this user, or use a tmpfs"
                )
            }
            Reason::BadId => {
                write!(
                    f,
                    "{path:?} cannot be for user or group 4294967295, which means none: choose another id"
                )
            }
            Reason::Empty => write!(f, "{path:?} is empty: remove it, and have it created anew"),
            Reason::Full { bytes } => {
                write!(f, "no room for {bytes} bytes at {path:?}: ask for less, or see df and free")
            }
            Reason::SizeLimit { bytes } => {
                write!(f, "{path:?} may not have {bytes} bytes: raise RLIMIT_FSIZE (ulimit -f)")
            }
            Reason::Unsupported => {
                write!(
                    f,
                    "the file system of {path:?} lacks O_TMPFILE or fallocate: use a tmpfs, such as /dev/shm"
                )
            }
            Reason::Unsealed => {
                write!(
                    f,
                    "{path:?} may change its size: pass on a file that SharedFile::memfd made"
                )
            }
            Reason::TooMany => {
                let most = super::MOST_GUARDED;
                write!(f, "cannot map {path:?}: this process has {most} such files, drop one")
            }
            Reason::Memory(error) => write!(f, "cannot map {path:?}: {error}"),
            Reason::Refused { errno } => {
                write!(f, "{path:?} refused: {}", std::io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::Memory(error) => Some(error),
            _ => None,
        }
    }
}
