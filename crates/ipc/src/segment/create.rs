//! Creating and opening segments, and attaching to them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use daiko_sys::file::{
    FileError, FileLock, FileMarks, Guarded, Permitted, Populate, Reason, SharedFile,
};
use daiko_sys::memory::{Mapping, page_size};
use daiko_sys::process::{Life, PidFd, ProcessId};

use super::life::life;
use super::{Inner, LOCK_PATIENCE, Segment, SegmentOptions, locked};
use crate::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::error::{self, SegmentError};
use crate::layout::{Header, MACHINE, MAGIC, MAX_ATTACHED, MIN_BYTES, Tables, VERSION};
use crate::table::AttachmentTable;

/// Largest number of attempts of `open_or_create`, if other processes create and remove the segment
/// meanwhile.
const MOST_TRIES: usize = 100;

impl Segment {
    /// Returns options for a segment: by default it is for this user alone.
    pub fn options() -> SegmentOptions {
        SegmentOptions::default()
    }

    /// Creates a segment of at least `bytes` bytes and attaches to it. Without a slash `name` means
    /// `/dev/shm/NAME`; otherwise it is a path. Only this user may open it (mode 0600):
    /// [`options`](Self::options) are for several users.
    ///
    /// # Errors
    ///
    /// [`Reason::Taken`] if the name exists, [`Reason::Full`] if the file system has no room for
    /// it, or another [`SegmentError`].
    pub fn create(name: impl AsRef<Path>, bytes: usize) -> Result<Segment, SegmentError> {
        Self::options().create(name, bytes)
    }

    /// Attaches to the segment of this name, if it is of this user and for this user alone.
    ///
    /// Attached processes that have died meanwhile are detached, and their locks are free. So a
    /// segment in which all processes have died can simply be opened.
    ///
    /// # Errors
    ///
    /// [`Reason::Missing`] if there is no such segment, [`Reason::Denied`] and
    /// [`Reason::Exposed`] if other users may use it, or another [`SegmentError`].
    pub fn open(name: impl AsRef<Path>) -> Result<Segment, SegmentError> {
        Self::options().open(name)
    }

    /// Attaches to the segment of this name, or creates it with `bytes` bytes if it does not exist.
    ///
    /// A smaller segment without a live process is replaced. Any number of processes may call this
    /// at once: all get the same segment.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create) and [`open`](Self::open); [`SegmentError::Smaller`]
    /// if the segment is smaller and in use.
    pub fn open_or_create(name: impl AsRef<Path>, bytes: usize) -> Result<Segment, SegmentError> {
        Self::options().open_or_create(name, bytes)
    }

    /// Creates a segment without a name, of at least `bytes` bytes, and attaches to it. Its users
    /// are this process and processes that inherit its [descriptor](Self::as_fd) or are sent it. It
    /// cannot be truncated.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create).
    pub fn anonymous(bytes: usize) -> Result<Segment, SegmentError> {
        Self::options().anonymous(bytes)
    }

    /// Attaches to a segment without a name by its descriptor, which stays the caller's.
    ///
    /// # Errors
    ///
    /// [`Reason::Unsealed`] if the descriptor is not of [`anonymous`](Self::anonymous), or another
    /// [`SegmentError`].
    pub fn from_fd(descriptor: BorrowedFd<'_>) -> Result<Segment, SegmentError> {
        Self::options().from_fd(descriptor)
    }
}

impl SegmentOptions {
    /// Creates a segment for these users, as [`Segment::create`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Segment::create`]; [`Reason::NoList`] if the file system has no
    /// access-control lists, which more than one user or group takes.
    pub fn create(&self, name: impl AsRef<Path>, bytes: usize) -> Result<Segment, SegmentError> {
        check_size(bytes)?;
        let me = identify()?;
        let draft = SharedFile::draft_for(&self.permitted, name, bytes)?;
        let mapping = draft.map_guarded(Populate::OnUse)?;
        write_header(&mapping);
        attach(&self.permitted, draft.publish()?, mapping, me, 0)
    }

    /// Attaches to a segment of these users, as [`Segment::open`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Segment::open`].
    pub fn open(&self, name: impl AsRef<Path>) -> Result<Segment, SegmentError> {
        attach_to(&self.permitted, SharedFile::open_for(&self.permitted, name)?, 0)
    }

    /// Attaches to a segment of these users, or creates it, as [`Segment::open_or_create`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Segment::open_or_create`] and [`create`](Self::create).
    pub fn open_or_create(
        &self,
        name: impl AsRef<Path>,
        bytes: usize,
    ) -> Result<Segment, SegmentError> {
        check_size(bytes)?;
        let name = name.as_ref();
        let mut last = Err(SegmentError::TooSmall { bytes });
        for _ in 0..MOST_TRIES {
            let file = SharedFile::open_for(&self.permitted, name).map_err(Into::into);
            last = file.and_then(|file| attach_to(&self.permitted, file, bytes));
            if is(&last, &[Reason::Missing]) {
                last = self.create(name, bytes);
            }
            if !is(&last, &[Reason::Missing, Reason::Taken]) {
                break;
            }
        }
        last
    }

    /// Creates a segment without a name for these users, as [`Segment::anonymous`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create).
    pub fn anonymous(&self, bytes: usize) -> Result<Segment, SegmentError> {
        check_size(bytes)?;
        let me = identify()?;
        let file = SharedFile::memfd_for(&self.permitted, "daiko", bytes)?;
        let mapping = file.map_guarded(Populate::OnUse)?;
        write_header(&mapping);
        attach(&self.permitted, file, mapping, me, 0)
    }

    /// Attaches to a segment without a name, of these users, as [`Segment::from_fd`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Segment::from_fd`].
    pub fn from_fd(&self, descriptor: BorrowedFd<'_>) -> Result<Segment, SegmentError> {
        // Opened anew, as a lock belongs to the open file, which a forked process shares with its
        // parent.
        let path = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|error| failed(&path, error))?;
        let file = SharedFile::from_memfd_for(&self.permitted, file.into())?;
        attach_to(&self.permitted, file, 0)
    }
}

fn failed(path: &Path, error: io::Error) -> FileError {
    FileError::diagnose(path, error.raw_os_error().unwrap_or(0))
}

/// Returns true if the segment is not available for one of these reasons.
fn is(segment: &Result<Segment, SegmentError>, reasons: &[Reason]) -> bool {
    matches!(segment, Err(SegmentError::File(error)) if reasons.contains(&error.reason()))
}

fn check_size(bytes: usize) -> Result<(), SegmentError> {
    if bytes < MIN_BYTES { Err(SegmentError::TooSmall { bytes }) } else { Ok(()) }
}

fn header(mapping: &Mapping) -> &Header {
    // SAFETY: the mapping has at least a page, and the header consists of atomics, valid with any
    // bits.
    unsafe { mapping.start().cast::<Header>().as_ref() }
}

/// Turns zeroed memory that no other process sees into a segment.
fn write_header(mapping: &Mapping) {
    let header = header(mapping);
    header.version.store(VERSION, Ordering::Relaxed);
    header.machine.store(MACHINE, Ordering::Relaxed);
    header.page_bytes.store(page_size() as u32, Ordering::Relaxed);
    header.bytes.store(mapping.len() as u64, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Relaxed);
}

/// The identity of this process, which must be able to detect the deaths of other processes.
fn identify() -> Result<ProcessId, SegmentError> {
    let me = ProcessId::own().map_err(SegmentError::Process)?;
    PidFd::open(me.pid).map_err(SegmentError::Process)?;
    Ok(me)
}

/// Maps the file of a segment and attaches. If it has fewer than `least` bytes and no live process,
/// removes it instead.
fn attach_to(
    permitted: &Permitted,
    file: SharedFile,
    least: usize,
) -> Result<Segment, SegmentError> {
    let me = identify()?;
    let mapping = file.map_guarded(Populate::OnUse)?;
    check_header(header(&mapping), &file)?;
    attach(permitted, file, mapping, me, least)
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
    // Each process guards and repairs the segment in its own pages.
    let found = header.page_bytes.load(Ordering::Relaxed);
    if found as usize != page_size() {
        return Err(SegmentError::Pages { path: path(), found });
    }
    // A header must not claim less than the size of the tables.
    let says = header.bytes.load(Ordering::Relaxed).max(MIN_BYTES as u64);
    let has = file.size() as u64;
    if says == has { Ok(()) } else { Err(SegmentError::Size { path: path(), says, has }) }
}

/// Enters this process in the table of attached processes, after removing dead processes.
fn attach(
    permitted: &Permitted,
    mut file: SharedFile,
    mapping: Guarded,
    me: ProcessId,
    least: usize,
) -> Result<Segment, SegmentError> {
    let path = file.path().to_path_buf();
    // SAFETY: the mapping begins with the tables, which consist of atomics, valid with any bits.
    let table = AttachmentTable(&unsafe { mapping.start().cast::<Tables>().as_ref() }.attached);
    let marks = permitted.has_others().then(|| FileMarks::of(file.as_fd()));
    let marks = marks.transpose().map_err(|error| failed(&path, error))?;
    let set_mark = |index| marks.as_ref().is_some_and(|marks| marks.set(index));
    let attached = locked(&mut file, LOCK_PATIENCE, |lock| {
        if is_removed(&lock)? {
            return Err(FileError::new(&path, Reason::Missing).into());
        }
        take_out_the_dead(&table, marks.as_ref(), me, &path)?;
        if mapping.len() < least {
            return Err(make_way(lock, &table, least));
        }
        let full = || SegmentError::Full { path: path.clone(), of: error::Table::Attached };
        table.attach(me, set_mark).ok_or_else(full)
    });
    if mapping.is_broken() {
        return Err(SegmentError::Truncated { path });
    }
    let watched = [const { AtomicU32::new(0) }; MAX_ATTACHED];
    let (file, users, process) = (Mutex::new(file), AtomicUsize::new(1), me.pid);
    let (all_watched, private) = (AtomicU64::new(0), Mutex::default());
    let me = attached?;
    let inner =
        Inner { mapping, path, file, marks, me, process, users, watched, all_watched, private };
    // Before any other use of the segment: sleepers watch this process from now on.
    inner.announce();
    Ok(Segment { inner: Arc::new(inner), is_user: true })
}

/// Detaches dead processes. Called under the lock.
fn take_out_the_dead(
    table: &AttachmentTable<'_>,
    marks: Option<&FileMarks>,
    me: ProcessId,
    path: &Path,
) -> Result<(), SegmentError> {
    for (holder, process) in table.live().filter(|(_, process)| *process != me) {
        match life(table, marks, holder, process) {
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

/// Removes a segment that is too small, unless a live process is attached. Decided under the lock
/// and before the caller is attached: otherwise each of several simultaneous callers would find the
/// rest attached.
fn make_way(lock: FileLock<'_>, table: &AttachmentTable<'_>, asked: usize) -> SegmentError {
    let (path, has) = (lock.path().to_path_buf(), lock.size());
    if table.live().next().is_some() {
        return SegmentError::Smaller { path, asked, has };
    }
    match lock.remove() {
        Ok(_) => FileError::new(&path, Reason::Missing).into(),
        Err(error) => error.into(),
    }
}

/// Returns true if the file has lost its name meanwhile, so that another process may create a new
/// one. A file without a name has none to lose.
pub(super) fn is_removed(file: &SharedFile) -> Result<bool, SegmentError> {
    Ok(file.path().is_absolute() && !file.has_its_name()?)
}
