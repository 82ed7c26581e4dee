//! A segment in this process.

mod create;
mod life;
mod object;
mod options;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use daiko_core::doorbell::{Listeners, RingOutcome};
use daiko_core::robust::Holder;
use daiko_sys::file::{FileLock, FileMarks, Guarded, SharedFile};
use daiko_sys::process::{Life, ProcessId};
use daiko_sys::{Scope, futex};

pub use self::object::{Bytes, Object, Shared};
pub use self::options::SegmentOptions;
use crate::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::directory::Directory;
use crate::error::{self, SegmentError};
use crate::layout::{Header, MAX_ATTACHED, Tables};
use crate::reaper;
use crate::table::AttachmentTable;

/// Time after which another process's hold on the segment's lock is an error: changes take
/// microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Memory that unrelated processes share, and to which this process is attached.
///
/// A segment belongs to one user; [`SegmentOptions`] permits further users.
///
/// A segment is a file: in memory under a name in `/dev/shm`, on any path, or without a name, for a
/// tree of processes. It has its size and all its memory from the beginning. Clones are cheap and
/// refer to the same attachment; dropping the last clone, with all objects made from it, detaches.
/// Threads that have waited in the segment keep their doorbells, and by them the attachment: a
/// worker until it sleeps next, any other thread until it waits in a segment next, or ends.
///
/// A forked process is not attached by the handles that it has inherited, and dropping them does no
/// harm to its parent: it opens the segment itself. A process that becomes another program (`exec`)
/// is detached. Processes that attach later, or begin to wait for it later, notice that at once;
/// current waiters notice it when such a process comes, or when the process ends.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::Segment;
///
/// let name = format!("daiko-doc-{}", std::process::id());
/// let segment = Segment::create(&name, 1 << 20)?;
/// assert_eq!(Segment::open(&name)?.bytes(), 1 << 20);
/// assert!(Segment::create(&name, 1 << 20).is_err());
/// segment.remove()?;
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
pub struct Segment {
    inner: Arc<Inner>,
    /// True if this handle counts as a user.
    is_user: bool,
}

pub(crate) struct Inner {
    /// The memory. This field keeps it mapped.
    mapping: Guarded,
    path: PathBuf,
    /// The file for the lock. Its mutex excludes the threads of this process.
    file: Mutex<SharedFile>,
    /// The marks of that file, in a segment of several users.
    marks: Option<FileMarks>,
    me: Holder,
    /// The id of this process. A process with another id has inherited this value and is not
    /// attached.
    process: u32,
    /// Number of handles other than those of doorbells, which keep the segment mapped but do not
    /// use it.
    users: AtomicUsize,
    /// The generations of the attachments that the reaper watches.
    watched: [AtomicU32; MAX_ATTACHED],
    /// The membership epoch at which all attached processes were watched.
    pub(crate) all_watched: AtomicU64,
    /// State of objects that is private to this process, by their offset.
    private: Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>,
}

// SAFETY: the memory is accessed by atomics only.
unsafe impl Send for Inner {}
// SAFETY: see Send.
unsafe impl Sync for Inner {}

impl Segment {
    /// Size of the segment in bytes.
    pub fn bytes(&self) -> usize {
        self.inner.mapping.len()
    }

    /// Size of the largest object that it has room for, in bytes.
    pub fn free_bytes(&self) -> usize {
        self.directory().free()
    }

    /// The path of its file; of a segment without a name, the name of the memfd.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The names of its objects.
    pub fn objects(&self) -> Vec<String> {
        self.directory().all().map(|(name, _)| name).collect()
    }

    /// The ids of the attached processes, except those known to have ended.
    pub fn attached(&self) -> Vec<u32> {
        self.table().live().map(|(_, process)| process.pid).collect()
    }

    /// This process's attachment.
    #[inline]
    pub fn me(&self) -> Holder {
        self.inner.me
    }

    /// Returns true if both handles belong to one attachment.
    #[inline]
    pub fn is(&self, other: &Segment) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns true if this attachment has users in this process other than doorbells.
    pub fn is_in_use(&self) -> bool {
        // Relaxed: a handle is cloned from another, so a thread that could wait here always sees
        // its own.
        self.inner.users.load(Ordering::Relaxed) > 0
    }

    /// A handle that keeps the segment mapped but is no user of it.
    pub(crate) fn unused(&self) -> Segment {
        Segment { inner: self.inner.clone(), is_user: false }
    }

    /// Removes the segment's name. Attached processes stay attached; the memory is freed with the
    /// last of them.
    ///
    /// # Errors
    ///
    /// If that is not allowed, or the segment is locked or inherited. A name that is gone already,
    /// or belongs to another file, is no error.
    pub fn remove(&self) -> Result<(), SegmentError> {
        self.locked(|lock| Ok(lock.remove().map(drop)?))
    }

    /// Returns true if the segment's name was removed or belongs to another segment by now, so that
    /// opening it leads elsewhere. A segment without a name never had one to lose.
    ///
    /// # Errors
    ///
    /// If its path cannot be read.
    pub fn is_removed(&self) -> Result<bool, SegmentError> {
        create::is_removed(&self.file())
    }

    /// The file, for a child process that is to [open](Self::from_fd) a segment without a name.
    pub fn as_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
        use_it(self.file().as_fd())
    }

    /// Rings for all listeners. The caller, which runs on `cpu`, has changed the awaited state by a
    /// read-modify-write. Returns true if a listener runs on another CPU, so that spinning for an
    /// answer is useful.
    #[inline]
    pub fn ring(&self, listeners: &Listeners, cpu: Option<u32>) -> bool {
        let bells = self.bells();
        listeners.ring(bells, cpu, |number| wake(bells[number].word()))
    }

    /// [`ring`](Self::ring) after a change by a plain store.
    #[inline]
    pub fn ring_behind_store(&self, listeners: &Listeners, cpu: Option<u32>) -> bool {
        let bells = self.bells();
        listeners.ring_behind_store(bells, cpu, |number| wake(bells[number].word()))
    }

    /// [`ring`](Self::ring) for the doorbell with number `bell`, if it exists.
    #[inline]
    pub fn ring_bell(&self, bell: usize, cpu: Option<u32>) -> bool {
        let Some(bell) = self.tables().doorbells.get(bell) else { return false };
        match bell.ring_behind(cpu) {
            RingOutcome::Awake { elsewhere } => elsewhere,
            RingOutcome::Asleep => {
                wake(bell.word());
                false
            }
        }
    }

    /// Returns true if `holder` is not attached any more. Its locks are free then.
    #[inline]
    pub fn is_gone(&self, holder: Holder) -> bool {
        self.table().is_gone(holder)
    }

    /// The membership epoch. It changes whenever a process attaches, detaches, or a
    /// [watched](Self::watch) process is known to be dead; all waiters are rung then.
    ///
    /// A condition that any process may fulfil needs care, as that process may die between the
    /// change and the ring. A waiter reads the epoch, [watches all processes](Self::watch_all),
    /// checks the condition, and checks again once the epoch has changed.
    #[inline]
    pub fn membership_epoch(&self) -> u64 {
        // Acquire: pairs with the Release in `count`: a reader of the new epoch finds the new
        // process in the table.
        self.tables().header.0.membership_epoch.load(Ordering::Acquire)
    }

    /// Finds the process of `holder`, which is attached.
    pub(crate) fn life(&self, holder: Holder, process: ProcessId) -> Life {
        life::life(&self.table(), self.inner.marks.as_ref(), holder, process)
    }

    /// Returns true if the file was truncated while it was mapped and this process has touched the
    /// missing part.
    ///
    /// Lost data reads as zeros then, and stores reach this process only: the segment must not be
    /// used further.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.inner.mapping.is_broken()
    }

    #[inline]
    pub(crate) fn tables(&self) -> &Tables {
        self.inner.tables()
    }

    #[inline]
    pub(crate) fn table(&self) -> AttachmentTable<'_> {
        AttachmentTable(&self.tables().attached)
    }

    pub(crate) fn directory(&self) -> Directory<'_> {
        Directory { names: &self.tables().names, bytes: self.bytes() }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn full(&self, of: error::Table) -> SegmentError {
        SegmentError::Full { path: self.path().into(), of }
    }

    /// Refuses a segment that this process has inherited.
    pub(crate) fn check_own(&self) -> Result<(), SegmentError> {
        let inherited = || SegmentError::Inherited { path: self.path().into() };
        self.inner.is_own().then_some(()).ok_or_else(inherited)
    }

    /// Refuses data of a segment that [was truncated](Self::is_truncated).
    ///
    /// # Errors
    ///
    /// [`SegmentError::Truncated`]
    pub fn check_whole(&self) -> Result<(), SegmentError> {
        let truncated = || SegmentError::Truncated { path: self.path().into() };
        (!self.is_truncated()).then_some(()).ok_or_else(truncated)
    }

    fn file(&self) -> MutexGuard<'_, SharedFile> {
        self.inner.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` while no other process changes the tables.
    pub(crate) fn locked<R>(
        &self,
        change: impl FnOnce(FileLock<'_>) -> Result<R, SegmentError>,
    ) -> Result<R, SegmentError> {
        // An inherited lock would be shared with the parent.
        self.check_own()?;
        locked(&mut self.file(), LOCK_PATIENCE, change)
    }
}

impl Inner {
    #[inline]
    fn tables(&self) -> &Tables {
        // SAFETY: the mapping begins with the tables, which consist of atomics, valid with any
        // bits.
        unsafe { self.mapping.start().cast::<Tables>().as_ref() }
    }

    pub(crate) fn table(&self) -> AttachmentTable<'_> {
        AttachmentTable(&self.tables().attached)
    }

    /// Claims the watch of `holder`. Returns true if the caller must register it, false if it was
    /// claimed before.
    #[inline]
    pub(crate) fn begins_to_watch(&self, holder: Holder) -> bool {
        let Some(watched) = self.watched.get(usize::from(holder.index())) else { return false };
        let generation = holder.generation().get();
        // Relaxed: the thread that changes it registers the watch.
        watched.load(Ordering::Relaxed) != generation
            && watched.swap(generation, Ordering::Relaxed) != generation
    }

    /// Releases the claim on the watch of `holder`, so that the next waiter watches it again.
    pub(crate) fn forgets(&self, holder: Holder) {
        self.watched[usize::from(holder.index()) % MAX_ATTACHED].store(0, Ordering::Relaxed);
    }

    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns true if the reaper watches `holder`, or `holder` is this process.
    pub(crate) fn watches(&self, holder: Holder) -> bool {
        let watched = &self.watched[usize::from(holder.index()) % MAX_ATTACHED];
        holder == self.me || watched.load(Ordering::Relaxed) == holder.generation().get()
    }

    /// Records the death of `holder` and wakes this process's waiters. Each process rings for its
    /// own waiters, as a process that rang for another might die first.
    pub(crate) fn record_death(&self, holder: Holder) {
        self.table().end(holder);
        self.count();
        self.ring_owners(|owner| owner == self.me.bits());
    }

    /// Increments the membership epoch.
    fn count(&self) {
        // Release: pairs with the Acquire in `membership_epoch`.
        self.tables().header.0.membership_epoch.fetch_add(1, Ordering::Release);
    }

    /// Rings for all sleepers in the segment after this process has attached or detached.
    fn announce(&self) {
        self.count();
        self.ring_owners(|_| true);
    }

    /// Wakes all threads that sleep in the segment with an owner that `rings` accepts.
    fn ring_owners(&self, rings: impl Fn(u64) -> bool) {
        crate::atomic::fence(Ordering::SeqCst);
        for (bell, owner) in self.tables().doorbells.iter().zip(&self.tables().owners) {
            match owner.load(Ordering::Relaxed) {
                // This doorbell and all behind it never had an owner.
                0 => break,
                owner if rings(owner) && bell.ring(None) == RingOutcome::Asleep => {
                    wake(bell.word())
                }
                _ => {}
            }
        }
    }
}

impl Clone for Segment {
    fn clone(&self) -> Self {
        self.inner.users.fetch_add(1, Ordering::Relaxed);
        Segment { inner: self.inner.clone(), is_user: true }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.is_user {
            self.inner.users.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_own() {
            // Before the end: a successor in this place sets the mark.
            self.marks.iter().for_each(|marks| marks.clear(self.me.index()));
            self.table().end(self.me);
            self.announce();
            reaper::forget(self);
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").field("path", &self.path()).field("bytes", &self.bytes()).finish()
    }
}

fn wake(word: &AtomicU32) {
    futex::wake(word, 1, Scope::Shared);
}

/// Runs `change` under the lock of a segment's file, which dies with its holder. The lock is held
/// for microseconds unless its holder is stopped.
fn locked<R>(
    file: &mut SharedFile,
    patience: Duration,
    change: impl FnOnce(FileLock<'_>) -> Result<R, SegmentError>,
) -> Result<R, SegmentError> {
    let begun = Instant::now();
    loop {
        if let Some(lock) = file.try_lock()? {
            return change(lock);
        }
        if begun.elapsed() > patience {
            return Err(SegmentError::Locked { path: file.path().into() });
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

const _: () = assert!(offset_of!(Tables, header) == 0 && size_of::<Header>() <= 4096);

#[cfg(test)]
#[path = "../../../../tests/segments.rs"]
mod segments;

#[cfg(test)]
mod tests {
    use super::segments::segment_name;
    use super::*;

    #[test]
    fn a_lock_of_a_stopped_holder_is_an_error_and_free_with_its_death() {
        let name = segment_name("locked");
        let segment = Segment::create(&name, crate::MIN_BYTES).unwrap();
        let holder = stopped(|| {
            let mut file = SharedFile::open(&name).unwrap();
            let _lock = file.lock().unwrap();
            // SAFETY: takes a plain integer.
            unsafe { libc::raise(libc::SIGSTOP) };
        });
        let mut file = SharedFile::open(&name).unwrap();
        let refused = locked(&mut file, Duration::from_millis(1), |_| Ok(()));
        let error = refused.unwrap_err();
        assert!(matches!(error, SegmentError::Locked { .. }), "{error}");
        // SAFETY: takes plain integers; the process is a child of the test that is not reaped yet.
        unsafe { libc::kill(holder, libc::SIGKILL) };
        segment.remove().unwrap();
    }

    /// A forked process that has stopped itself.
    fn stopped(body: impl FnOnce()) -> libc::pid_t {
        // SAFETY: glibc makes its allocator usable in the child, which leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(1) };
        }
        let mut status = 0;
        // SAFETY: the status is a live local.
        let waited = unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) };
        assert!(waited == child && libc::WIFSTOPPED(status), "{status}");
        child
    }
}
