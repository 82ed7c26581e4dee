//! How a process comes to a segment: it creates it, or opens it, and is attached.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use daiko_sys::file::{FileError, FileLock, Guarded, Populate, Reason, SharedFile};
use daiko_sys::memory::Mapping;
use daiko_sys::process::{Life, PidFd, ProcessId};

use super::{Inner, LOCK_PATIENCE, Segment, locked};
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
        let me = identify()?;
        let draft = SharedFile::draft(name, bytes)?;
        let mapping = draft.map_guarded(Populate::OnUse)?;
        write_header(&mapping);
        attach(draft.publish()?, mapping, me, 0)
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
        attach_to(SharedFile::open(name)?, 0)
    }

    /// Attaches to the segment of this name, or creates it with `bytes` bytes if there is none.
    ///
    /// A smaller one in which nobody lives is replaced. Any number of processes may do this at once: all get the
    /// same segment.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open); [`SegmentError::Smaller`] if the segment is, and in use.
    pub fn open_or_create(name: impl AsRef<Path>, bytes: usize) -> Result<Segment, SegmentError> {
        check_size(bytes)?;
        let name = name.as_ref();
        let mut last = Err(SegmentError::TooSmall { bytes });
        for _ in 0..MOST_TRIES {
            last =
                SharedFile::open(name).map_err(Into::into).and_then(|file| attach_to(file, bytes));
            if is(&last, &[Reason::Missing]) {
                last = Self::create(name, bytes);
            }
            if !is(&last, &[Reason::Missing, Reason::Taken]) {
                break;
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
        let me = identify()?;
        let file = SharedFile::memfd("daiko", bytes)?;
        let mapping = file.map_guarded(Populate::OnUse)?;
        write_header(&mapping);
        attach(file, mapping, me, 0)
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
        attach_to(SharedFile::from_memfd(file.into())?, 0)
    }
}

/// Whether that is not to be had for one of these reasons.
fn is(segment: &Result<Segment, SegmentError>, reasons: &[Reason]) -> bool {
    matches!(segment, Err(SegmentError::File(error)) if reasons.contains(&error.reason()))
}

fn check_size(bytes: usize) -> Result<(), SegmentError> {
    if bytes < MIN_BYTES { Err(SegmentError::TooSmall { bytes }) } else { Ok(()) }
}

fn header(mapping: &Mapping) -> &Header {
    // SAFETY: the mapping has at least a page, and the header is atomics, valid whatever they hold.
    unsafe { mapping.start().cast::<Header>().as_ref() }
}

/// Makes zeroed memory that nobody else sees a segment.
fn write_header(mapping: &Mapping) {
    let header = header(mapping);
    header.version.store(VERSION, Ordering::Relaxed);
    header.machine.store(MACHINE, Ordering::Relaxed);
    header.bytes.store(mapping.len() as u64, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Relaxed);
}

/// Who this process is, which has to be able to tell when others die.
fn identify() -> Result<ProcessId, SegmentError> {
    let me = ProcessId::own().map_err(SegmentError::Process)?;
    PidFd::open(me.pid).map_err(SegmentError::Process)?;
    Ok(me)
}

/// Maps a file that says it is a segment, and attaches; if it has fewer than `least` bytes and nobody lives in it, removes
/// it instead.
fn attach_to(file: SharedFile, least: usize) -> Result<Segment, SegmentError> {
    let me = identify()?;
    let mapping = file.map_guarded(Populate::OnUse)?;
    check_header(header(&mapping), &file)?;
    attach(file, mapping, me, least)
}

fn check_header(header: &Header, file: &SharedFile) -> Result<(), SegmentError> {
    let path = || file.path().to_path_buf();
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
    // Who says that it has less than the tables does not say the truth.
    let says = header.bytes.load(Ordering::Relaxed).max(MIN_BYTES as u64);
    let has = file.size() as u64;
    if says == has { Ok(()) } else { Err(SegmentError::Size { path: path(), says, has }) }
}

/// Enters this process among those that are attached, once it has taken those out that have died.
fn attach(
    mut file: SharedFile,
    mapping: Guarded,
    me: ProcessId,
    least: usize,
) -> Result<Segment, SegmentError> {
    let path = file.path().to_path_buf();
    // SAFETY: the mapping begins with the tables, which are atomics, valid whatever they hold.
    let table = Table(&unsafe { mapping.start().cast::<Tables>().as_ref() }.attached);
    let attached = locked(&mut file, LOCK_PATIENCE, |lock| {
        if is_removed(&lock)? {
            return Err(FileError::new(&path, Reason::Missing).into());
        }
        take_out_the_dead(&table, me, &path)?;
        if mapping.len() < least {
            return Err(make_way(lock, &table, least));
        }
        let full = || SegmentError::Full { path: path.clone(), of: error::Table::Attached };
        table.attach(me).ok_or_else(full)
    });
    if mapping.is_broken() {
        return Err(SegmentError::Truncated { path });
    }
    let watched = [const { AtomicU32::new(0) }; MAX_ATTACHED];
    let (file, users, process) = (Mutex::new(file), AtomicUsize::new(1), me.pid);
    let (all_watched, private) = (AtomicU64::new(0), Mutex::default());
    let me = attached?;
    let inner = Inner { mapping, path, file, me, process, users, watched, all_watched, private };
    // Before this process does anything else here: who sleeps has it watched from then on.
    inner.announce();
    Ok(Segment { inner: Arc::new(inner), is_user: true })
}

/// Under the lock.
fn take_out_the_dead(table: &Table<'_>, me: ProcessId, path: &Path) -> Result<(), SegmentError> {
    for (holder, process) in table.live().filter(|(_, process)| *process != me) {
        match process.find() {
            Life::Alive(_) => {}
            Life::Ended => _ = table.end(holder),
            Life::Unknown(doubt) => {
                return Err(SegmentError::Unwatchable {
                    path: path.into(),
                    pid: process.pid,
                    doubt,
                });
            }
        }
    }
    Ok(())
}

/// Removes a segment that is too small, unless somebody lives in it. It is decided under the lock, before the caller is
/// attached: else of several who come at once each would find the others there.
fn make_way(lock: FileLock<'_>, table: &Table<'_>, asked: usize) -> SegmentError {
    let (path, has) = (lock.path().to_path_buf(), lock.size());
    if table.live().next().is_some() {
        return SegmentError::Smaller { path, asked, has };
    }
    match lock.remove() {
        Ok(_) => FileError::new(&path, Reason::Missing).into(),
        Err(error) => error.into(),
    }
}

/// Whether the file has lost its name meanwhile, so that others may create another one. One without a name has
/// none to lose.
pub(super) fn is_removed(file: &SharedFile) -> Result<bool, SegmentError> {
    Ok(file.path().is_absolute() && !file.has_its_name()?)
}
