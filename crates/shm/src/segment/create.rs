//! How a process comes to a segment: it creates it, or opens it, and is attached.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use daiko_sys::file::{FileError, Guarded, Populate, Reason, SharedFile};
use daiko_sys::memory::Mapping;
use daiko_sys::process::{Life, ProcessId};

use super::{Inner, Segment, locked};
use crate::error::{self, SegmentError};
use crate::layout::{Header, MACHINE, MAGIC, MAX_ATTACHED, MIN_BYTES, Tables, VERSION};
use crate::table::Table;

/// So often `open_or_create` looks anew because others create and remove the segment meanwhile.
const MOST_TRIES: usize = 100;

impl Segment {
    /// Creates a segment of at least `bytes` bytes and attaches to it. Without a slash `name` means
    /// `/dev/shm/NAME`; else it is a path. Only this user may open it (0600).
    ///
    /// # Errors
    ///
    /// [`Reason::Taken`] if there is one of this name already, [`Reason::Full`] if the file system has no room for it, or
    /// whatever else [`SegmentError`] says.
    pub fn create(name: impl AsRef<Path>, bytes: usize) -> Result<Segment, SegmentError> {
        check_size(bytes)?;
        let draft = SharedFile::draft(name, bytes)?;
        write_header(&draft.map(Populate::OnUse)?);
        let file = draft.publish()?;
        let mapping = file.map_guarded(Populate::OnUse)?;
        attach(file, mapping)
    }

    /// Attaches to the segment of this name.
    ///
    /// Those attached to it that have died meanwhile are attached no more: what they held is nobody's. So
    /// a segment that all its processes have died in is simply opened.
    ///
    /// # Errors
    ///
    /// [`Reason::Missing`] if there is none, or whatever else [`SegmentError`] says.
    pub fn open(name: impl AsRef<Path>) -> Result<Segment, SegmentError> {
        let file = SharedFile::open(name)?;
        attach_to(file)
    }

    /// Attaches to the segment of this name, or creates it with `bytes` bytes if there is none.
    ///
    /// A smaller one in which nobody lives is replaced. Any number of processes may do this at once: all get the
    /// same segment.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open); [`SegmentError::Size`] if the segment is smaller and in use.
    pub fn open_or_create(name: impl AsRef<Path>, bytes: usize) -> Result<Segment, SegmentError> {
        check_size(bytes)?;
        let name = name.as_ref();
        let mut last = Err(SegmentError::TooSmall { bytes });
        for _ in 0..MOST_TRIES {
            last = match Self::open(name) {
                Err(error) if is(&error, |reason| matches!(reason, Reason::Missing)) => {
                    Self::create(name, bytes)
                }
                Ok(segment) if segment.bytes() < bytes => segment.make_way(bytes),
                opened => opened,
            };
            match &last {
                Err(error)
                    if is(error, |reason| matches!(reason, Reason::Missing | Reason::Taken)) => {}
                _ => break,
            }
        }
        last
    }

    /// Creates a segment without a name, of at least `bytes` bytes, and attaches to it: for this process and those
    /// that inherit its [descriptor](Self::as_fd), or are sent it. Nobody can cut it short.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn anonymous(bytes: usize) -> Result<Segment, SegmentError> {
        check_size(bytes)?;
        let file = SharedFile::memfd("daiko", bytes)?;
        let mapping = file.map_guarded(Populate::OnUse)?;
        write_header(&mapping);
        attach(file, mapping)
    }

    /// Attaches to a segment without a name by its descriptor, which stays the caller's.
    ///
    /// # Errors
    ///
    /// [`Reason::Unsealed`] if it is not one of [`anonymous`](Self::anonymous), or whatever else [`SegmentError`] says.
    pub fn from_fd(descriptor: BorrowedFd<'_>) -> Result<Segment, SegmentError> {
        // Opened anew, as a lock belongs to the open file, which a forked process shares with its parent.
        let path = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        let file = File::options().read(true).write(true).open(&path);
        let failed =
            |error: std::io::Error| FileError::diagnose(&path, error.raw_os_error().unwrap_or(0));
        let file = file.map_err(failed)?;
        attach_to(SharedFile::from_memfd(file.into())?)
    }

    /// Removes this segment, which is too small, if nobody else lives in it.
    fn make_way(self, bytes: usize) -> Result<Segment, SegmentError> {
        let (path, has) = (self.path(), self.bytes() as u64);
        let alone = self.table().live().all(|(holder, _)| holder == self.me());
        if !alone {
            return Err(SegmentError::Size { path, says: bytes as u64, has });
        }
        self.remove()?;
        Err(SegmentError::File(FileError::new(&path, Reason::Missing)))
    }
}

fn is(error: &SegmentError, reason: impl Fn(&Reason) -> bool) -> bool {
    matches!(error, SegmentError::File(error) if reason(&error.reason()))
}

fn check_size(bytes: usize) -> Result<(), SegmentError> {
    if bytes < MIN_BYTES { Err(SegmentError::TooSmall { bytes }) } else { Ok(()) }
}

fn header(mapping: &Mapping) -> &Header {
    // SAFETY: the mapping has at least the tables, which are atomics, valid whatever they hold.
    &unsafe { mapping.start().cast::<Tables>().as_ref() }.header.0
}

/// Makes zeroed memory that nobody else sees a segment.
fn write_header(mapping: &Mapping) {
    let header = header(mapping);
    header.version.store(VERSION, Ordering::Relaxed);
    header.machine.store(MACHINE, Ordering::Relaxed);
    header.bytes.store(mapping.len() as u64, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Relaxed);
}

/// Maps a file that says it is a segment, and attaches.
fn attach_to(file: SharedFile) -> Result<Segment, SegmentError> {
    let path = || file.path().to_path_buf();
    if file.size() < MIN_BYTES {
        return Err(SegmentError::Foreign { path: path() });
    }
    let mapping = file.map_guarded(Populate::OnUse)?;
    let header = header(&mapping);
    let (version, machine) =
        (header.version.load(Ordering::Relaxed), header.machine.load(Ordering::Relaxed));
    if header.magic.load(Ordering::Relaxed) != MAGIC {
        return Err(SegmentError::Foreign { path: path() });
    }
    if version != VERSION {
        return Err(SegmentError::Version { path: path(), found: version });
    }
    if machine != MACHINE {
        return Err(SegmentError::Machine { path: path() });
    }
    let says = header.bytes.load(Ordering::Relaxed);
    if says != file.size() as u64 {
        return Err(SegmentError::Size { path: path(), says, has: file.size() as u64 });
    }
    attach(file, mapping)
}

/// Enters this process among those that are attached, once it has taken those out that have died.
fn attach(mut file: SharedFile, mapping: Guarded) -> Result<Segment, SegmentError> {
    let me = ProcessId::own().map_err(SegmentError::Process)?;
    let path = file.path().to_path_buf();
    // SAFETY: as in `header`.
    let table = Table(&unsafe { mapping.start().cast::<Tables>().as_ref() }.attached);
    let holder = locked(&mut file, |lock| {
        if is_removed(&lock)? {
            return Err(FileError::new(&path, Reason::Missing).into());
        }
        for (holder, process) in table.live().filter(|(_, process)| *process != me) {
            match process.find() {
                Life::Alive(_) => {}
                Life::Ended => _ = table.end(holder),
                Life::Unknown(doubt) => {
                    return Err(SegmentError::Unwatchable {
                        path: path.clone(),
                        pid: process.pid,
                        doubt,
                    });
                }
            }
        }
        table
            .attach(me)
            .ok_or(SegmentError::Full { path: path.clone(), of: error::Table::Attached })
    })?;
    let watched = [const { AtomicU32::new(0) }; MAX_ATTACHED];
    let (file, bells) = (Mutex::new(file), AtomicUsize::new(0));
    Ok(Segment { inner: Arc::new(Inner { mapping, me: holder, file, bells, watched }) })
}

/// Whether the file has lost its name meanwhile, so that others may create another one. One without a name has
/// none to lose.
fn is_removed(file: &SharedFile) -> Result<bool, SegmentError> {
    Ok(file.path().is_absolute() && !file.has_its_name()?)
}
