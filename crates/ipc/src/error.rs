//! Errors of segments.

use std::fmt;
use std::path::PathBuf;

use daiko_sys::file::FileError;
use daiko_sys::memory::page_size;
use daiko_sys::process::{Doubt, ProcessError};

use crate::layout::{MAX_ATTACHED, MAX_DOORBELLS, MAX_NAME, MAX_OBJECTS, MIN_BYTES, VERSION};

/// Reason why a segment or an object in it is not available. Each message is one line with the
/// remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum SegmentError {
    /// The file is not available, or its name is taken: see [`FileError::reason`].
    File(FileError),
    /// The file is no segment.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The segment belongs to another version of this library.
    Version {
        /// The segment.
        path: PathBuf,
        /// The version of its layout.
        found: u32,
    },
    /// The segment belongs to another machine, or to a process with pointers of another width.
    Machine {
        /// The segment.
        path: PathBuf,
    },
    /// The segment was made under a kernel with pages of another size.
    Pages {
        /// The segment.
        path: PathBuf,
        /// Bytes of a page of its creator.
        found: u32,
    },
    /// The file's size differs from its header: it was truncated or has never been a whole segment.
    Size {
        /// The segment.
        path: PathBuf,
        /// Size in the header, in bytes.
        says: u64,
        /// Size of the file, in bytes.
        has: u64,
    },
    /// The file was truncated while it was mapped: the data behind its end is lost.
    Truncated {
        /// The segment.
        path: PathBuf,
    },
    /// The segment is in use and smaller than requested.
    Smaller {
        /// The segment.
        path: PathBuf,
        /// The requested size in bytes.
        asked: usize,
        /// The actual size in bytes.
        has: usize,
    },
    /// This process has inherited the segment from its parent and is not attached itself.
    Inherited {
        /// The segment.
        path: PathBuf,
    },
    /// The requested size is smaller than the tables of a segment.
    TooSmall {
        /// The requested size in bytes.
        bytes: usize,
    },
    /// This process cannot tell if an attached process lives, or when it dies.
    Unwatchable {
        /// The segment.
        path: PathBuf,
        /// The id of that process in its own namespace.
        pid: u32,
        /// The reason.
        doubt: Doubt,
    },
    /// Another process has held the segment's lock for seconds: it is stopped in the middle of a
    /// change.
    Locked {
        /// The segment.
        path: PathBuf,
    },
    /// This process cannot watch for the ends of processes.
    Process(ProcessError),
    /// A table of the segment is full.
    Full {
        /// The segment.
        path: PathBuf,
        /// The table.
        of: Table,
    },
    /// The segment has no room for an object.
    NoRoom {
        /// The segment.
        path: PathBuf,
        /// Size of the object in bytes.
        bytes: usize,
        /// Size of the largest free part in bytes.
        free: usize,
    },
    /// No segment can hold an object of this size.
    Impossible {
        /// The kind of object.
        is: &'static str,
        /// The possible sizes.
        limits: &'static str,
    },
    /// The name of an object is empty or too long.
    Name {
        /// The name.
        name: String,
    },
    /// No object has this name.
    NoObject {
        /// The name.
        name: String,
    },
    /// An object with this name already exists.
    ObjectTaken {
        /// The name.
        name: String,
    },
    /// The object of this name has another kind, type or size.
    Other {
        /// The name.
        name: String,
        /// The expected kind.
        asked: &'static str,
        /// The difference.
        differs: &'static str,
    },
}

/// A table of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Table {
    /// The attached processes.
    Attached,
    /// The doorbells of waiting threads.
    Doorbells,
    /// The named objects.
    Objects,
}

impl Table {
    fn limit(self) -> (usize, &'static str) {
        match self {
            Table::Attached => (MAX_ATTACHED, "attached processes: end one of them"),
            Table::Doorbells => (MAX_DOORBELLS, "threads that wait in it: use fewer workers"),
            Table::Objects => (MAX_OBJECTS, "objects: put some into another segment"),
        }
    }
}

impl From<FileError> for SegmentError {
    fn from(error: FileError) -> Self {
        SegmentError::File(error)
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use SegmentError as E;
        match self {
            E::File(error) => error.fmt(f),
            // Paths are written by `Debug`, which escapes line breaks.
            E::Foreign { path } => write!(f, "{path:?} is no segment: choose another name"),
            E::Version { path, found } => write!(
                f,
                "{path:?} has layout {found}, this program knows layout {VERSION}: build all its programs with one \
                 version of daiko, or remove it if no user of it lives"
            ),
            E::Machine { path } => write!(
                f,
                "{path:?} was made for another kind of machine: remove it, and have it created here"
            ),
            E::Pages { path, found } => write!(
                f,
                "{path:?} was made with pages of {found} bytes, those here have {}: remove it, and have it created here",
                page_size()
            ),
            E::Size { path, says, has } => write!(
                f,
                "{path:?} says that it has {says} bytes, but the file has {has}: remove it, and have it created anew"
            ),
            E::Truncated { path } => write!(
                f,
                "{path:?} was cut short while it was in use: end all its users, remove it, and have it created anew"
            ),
            E::Smaller { path, asked, has } => write!(
                f,
                "{path:?} has {has} bytes, {asked} were asked for: end its users, or ask for no more"
            ),
            E::Inherited { path } => write!(
                f,
                "{path:?} was inherited from the process that forked this one: open it here, too"
            ),
            E::TooSmall { bytes } => {
                write!(f, "{bytes} bytes are too few for a segment: ask for at least {MIN_BYTES}")
            }
            E::Unwatchable { path, pid, doubt } => write!(
                f,
                "{path:?}: whether process {pid}, which is attached, lives cannot be told: {doubt}; or remove the file, \
                 if no user of it lives"
            ),
            E::Locked { path } => write!(
                f,
                "{path:?}: another process has held the lock for seconds: continue it if it is stopped (lslocks names \
                 it), or end it"
            ),
            E::Process(error) => write!(f, "deaths cannot be watched for: {error}"),
            E::Full { path, of } => {
                let (limit, unit) = of.limit();
                write!(f, "{path:?} has its {limit} {unit}")
            }
            E::NoRoom { path, bytes, free } => write!(
                f,
                "{path:?} has no room for {bytes} bytes, {free} are free: create it larger"
            ),
            E::Impossible { is, limits } => {
                write!(f, "{is} cannot be of this size: choose {limits}")
            }
            E::Name { name } => write!(
                f,
                "{name:?} cannot name an object: a name has 1 to {MAX_NAME} bytes, none of them zero"
            ),
            E::NoObject { name } => {
                write!(
                    f,
                    "the segment has no object named {name:?}: start the program that creates it first"
                )
            }
            E::ObjectTaken { name } => {
                write!(f, "the segment has an object named {name:?} already: open it instead")
            }
            E::Other { name, asked, differs } => write!(
                f,
                "the object named {name:?} is not {asked}, it has another {differs}: use the same types and sizes in \
                 all programs, or another name"
            ),
        }
    }
}

impl std::error::Error for SegmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SegmentError::File(error) => Some(error),
            SegmentError::Process(error)
            | SegmentError::Unwatchable { doubt: Doubt::Blind(error), .. } => Some(error),
            _ => None,
        }
    }
}
