//! A segment, as this process has it.

mod create;
mod object;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use daiko_core::doorbell::{Listeners, Rung};
use daiko_core::robust::Holder;
use daiko_sys::file::{FileLock, Guarded, SharedFile};
use daiko_sys::{Scope, futex};

pub use self::object::{Bytes, Object, Shared};
use crate::directory::Directory;
use crate::error::{self, SegmentError};
use crate::layout::{Header, MAX_ATTACHED, Tables};
use crate::reaper;
use crate::table::Table;

/// How long the segment's lock may be held by another before that is an error: changes take microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Memory that unrelated processes share, to which this process is attached.
///
/// A segment is a file: of memory, under a name in `/dev/shm`, or on any path; or one without a name, for a tree of
/// processes. It has its size from the beginning, and all its memory. Clones are cheap, and refer to the same
/// attachment; the last one, with all that was made of it, detaches. Threads that have waited in the segment keep their
/// doorbells, and by them the attachment: a worker until it sleeps next, any other thread until it waits in a segment next, or
/// ends.
///
/// A process that was forked is not attached by what it has inherited, and does its parent no harm when it drops that:
/// it opens the segment itself. A process that becomes another program (`exec`) is attached no more. Those learn of it who
/// come next, the new program for one, or begin to wait for it; who waits for it already is told then, or when the
/// process ends.
///
/// ```
/// use daiko_shm::Segment;
///
/// let name = format!("daiko-doc-{}", std::process::id());
/// let segment = Segment::create(&name, 1 << 20)?;
/// assert_eq!(Segment::open(&name)?.bytes(), 1 << 20);
/// assert!(Segment::create(&name, 1 << 20).is_err());
/// segment.remove()?;
/// # Ok::<(), daiko_shm::SegmentError>(())
/// ```
pub struct Segment {
    inner: Arc<Inner>,
    /// Whether it counts among the users.
    is_user: bool,
}

pub(crate) struct Inner {
    /// Its memory; the field keeps it mapped.
    mapping: Guarded,
    path: PathBuf,
    /// For the lock; and by it the threads of this process exclude each other.
    file: Mutex<SharedFile>,
    me: Holder,
    /// The id of this process: another one has inherited this, and is not attached.
    process: u32,
    /// Handles other than those of doorbells, which keep the segment mapped but do not use it.
    users: AtomicUsize,
    /// The generations of those attachments whose end the reaper tells of.
    watched: [AtomicU32; MAX_ATTACHED],
    /// The census as of which all who were attached are watched.
    pub(crate) all_watched: AtomicU64,
    /// What this process alone knows of objects, by their offset.
    private: Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>,
}

// SAFETY: the memory is reached by atomics alone.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

impl Segment {
    /// Bytes of the segment.
    pub fn bytes(&self) -> usize {
        self.inner.mapping.len()
    }

    /// Bytes of the largest object that it has room for.
    pub fn free_bytes(&self) -> usize {
        self.directory().free()
    }

    /// The path of its file; of one without a name, what it is called.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The names of its objects.
    pub fn objects(&self) -> Vec<String> {
        self.directory().all().map(|(name, _)| name).collect()
    }

    /// The ids of the processes that are attached, as far as their end is not known.
    pub fn attached(&self) -> Vec<u32> {
        self.table().live().map(|(_, process)| process.pid).collect()
    }

    /// This process's attachment.
    #[inline]
    pub fn me(&self) -> Holder {
        self.inner.me
    }

    /// Whether both are one attachment.
    #[inline]
    pub fn is(&self, other: &Segment) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether anything but doorbells of this process uses this attachment.
    pub fn is_in_use(&self) -> bool {
        // Relaxed: a user has come from another one, so that nobody who could wait here overlooks himself.
        self.inner.users.load(Ordering::Relaxed) > 0
    }

    /// A handle that keeps the segment mapped, but does not use it.
    pub(crate) fn unused(&self) -> Segment {
        Segment { inner: self.inner.clone(), is_user: false }
    }

    /// Removes the segment's name. Who is attached stays so; the memory goes with the last of them.
    ///
    /// # Errors
    ///
    /// If that is not allowed, or the segment is locked or inherited. It is none if the name is gone already, or another's.
    pub fn remove(&self) -> Result<(), SegmentError> {
        self.locked(|lock| Ok(lock.remove().map(drop)?))
    }

    /// Whether the segment's name was removed, or is another segment's by now: who opens it does not come here. One
    /// without a name never had any.
    ///
    /// # Errors
    ///
    /// If its path cannot be looked at.
    pub fn is_removed(&self) -> Result<bool, SegmentError> {
        create::is_removed(&self.file())
    }

    /// The file, for a child process that is to [open](Self::from_fd) a segment without a name.
    pub fn as_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
        use_it(self.file().as_fd())
    }

    /// Rings for all who listen, once the caller, who runs on `cpu`, has changed by a read-modify-write what they wait for.
    /// Whether one of them runs elsewhere, so that looking for an answer is of use.
    #[inline]
    pub fn ring(&self, listeners: &Listeners, cpu: Option<u32>) -> bool {
        let bells = self.bells();
        listeners.ring(bells, cpu, |number| wake(bells[number].word()))
    }

    /// As [`ring`](Self::ring), once the caller has changed it by a plain store.
    #[inline]
    pub fn ring_behind_store(&self, listeners: &Listeners, cpu: Option<u32>) -> bool {
        let bells = self.bells();
        listeners.ring_behind_store(bells, cpu, |number| wake(bells[number].word()))
    }

    /// As [`ring`](Self::ring), for doorbell number `bell`, if there is one.
    #[inline]
    pub fn ring_bell(&self, bell: usize, cpu: Option<u32>) -> bool {
        let Some(bell) = self.tables().doorbells.get(bell) else { return false };
        match bell.ring_behind(cpu) {
            Rung::Awake { elsewhere } => elsewhere,
            Rung::Asleep => {
                wake(bell.word());
                false
            }
        }
    }

    /// Whether `holder` is attached no more: what it held is nobody's.
    #[inline]
    pub fn is_gone(&self, holder: Holder) -> bool {
        self.table().is_gone(holder)
    }

    /// Another number than before whenever somebody has attached or detached, or one who was [watched](Self::watch)
    /// is known to be dead: all who wait are rung for then.
    ///
    /// Who waits for something that anybody may bring about, and may have died before he rang, remembers it, has
    /// [all watched](Self::watch_all), looks, and looks again once it has changed.
    #[inline]
    pub fn census(&self) -> u64 {
        // Acquire: pairs with the Release in `count`: who sees that somebody has come finds him in the table.
        self.tables().header.0.census.load(Ordering::Acquire)
    }

    /// Whether the file was cut short while it was mapped, as far as this process has touched what is gone.
    ///
    /// What was lost reads as zeros then, and what is written there is this process's alone: nobody is to go on with it.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.inner.mapping.is_broken()
    }

    #[inline]
    pub(crate) fn tables(&self) -> &Tables {
        self.inner.tables()
    }

    #[inline]
    pub(crate) fn table(&self) -> Table<'_> {
        Table(&self.tables().attached)
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

    /// Refuses to go on with what this process has inherited.
    pub(crate) fn check_own(&self) -> Result<(), SegmentError> {
        let inherited = || SegmentError::Inherited { path: self.path().into() };
        self.inner.is_own().then_some(()).ok_or_else(inherited)
    }

    /// Refuses what was read from a segment that [was cut short](Self::is_truncated).
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
        // SAFETY: the mapping begins with the tables, which are atomics, valid whatever they hold.
        unsafe { self.mapping.start().cast::<Tables>().as_ref() }
    }

    pub(crate) fn table(&self) -> Table<'_> {
        Table(&self.tables().attached)
    }

    /// Whether the reaper watches `holder` from now on by the caller's doing; false: it did before.
    #[inline]
    pub(crate) fn begins_to_watch(&self, holder: Holder) -> bool {
        let Some(watched) = self.watched.get(usize::from(holder.index())) else { return false };
        let generation = holder.generation().get();
        // Relaxed: whoever has changed it does what follows.
        watched.load(Ordering::Relaxed) != generation
            && watched.swap(generation, Ordering::Relaxed) != generation
    }

    /// Asks anew when `holder` is to be watched again.
    pub(crate) fn forgets(&self, holder: Holder) {
        self.watched[usize::from(holder.index()) % MAX_ATTACHED].store(0, Ordering::Relaxed);
    }

    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Whether the reaper is to tell of the end of `holder`, or that is this process.
    pub(crate) fn watches(&self, holder: Holder) -> bool {
        let watched = &self.watched[usize::from(holder.index()) % MAX_ATTACHED];
        holder == self.me || watched.load(Ordering::Relaxed) == holder.generation().get()
    }

    /// Says that `holder` has died, and has this process's waiters look again. Each process rings for its own: whoever
    /// does so for others may die first.
    pub(crate) fn has_ended(&self, holder: Holder) {
        self.table().end(holder);
        self.count();
        self.ring_whose(|owner| owner == self.me.bits());
    }

    /// Changes the census.
    fn count(&self) {
        // Release: pairs with the Acquire in `census`.
        self.tables().header.0.census.fetch_add(1, Ordering::Release);
    }

    /// Says to all who sleep in the segment that this process has come or left.
    fn announce(&self) {
        self.count();
        self.ring_whose(|_| true);
    }

    /// Wakes all threads that sleep for something in the segment, so that they look again, and whose owner will do.
    fn ring_whose(&self, rings: impl Fn(u64) -> bool) {
        std::sync::atomic::fence(Ordering::SeqCst);
        for (bell, owner) in self.tables().doorbells.iter().zip(&self.tables().owners) {
            match owner.load(Ordering::Relaxed) {
                // Nobody ever had this one, nor those behind it.
                0 => break,
                owner if rings(owner) && bell.ring(None) == Rung::Asleep => wake(bell.word()),
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

/// Runs `change` under the lock of a segment's file, which dies with its holder. It is held for microseconds, unless
/// that one is stopped.
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
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_holder_is_stopped_is_an_error_and_free_with_its_death() {
        let name = format!("daiko-test-{}-locked", std::process::id());
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
        // SAFETY: the process is a child of the test, not reaped yet.
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
