//! Many readers or one writer, of several processes.

mod readers;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::{MAX_ATTACHED, Segment, SegmentError};
use bytemuck::Pod;
use daiko_core::robust::{self, FoundData, Holder, Reads};

use self::readers::{Local, Reading};
use super::gate::SharedPass;
use super::kind;
use super::placed::{LINES, Placed, ValueKind, Valued, Waited};
use super::poison::{LockResult, TimedLockError, TryLockError, for_ever, mark_found};
use super::wait::At;
use super::word::{MutexAt, Poise};
use daiko_rt::Deadline;

/// A lock around a value in a segment, for many readers or one writer at a time.
///
/// The readers of a process share one copy of the value, which its first reader makes; a writer
/// gets a copy, and its changes are written back where it unlocks, as described at
/// [`Mutex`](super::Mutex).
///
/// A fiber that has to wait suspends, any other thread blocks. The waiters of one process are
/// served in FIFO order. A waiting writer keeps new readers of all processes out. The order
/// between several writers, and between a writer and the readers of other processes, is left to
/// chance.
///
/// # Deaths and panics
///
/// A reader that dies leaves nothing behind. If a writer dies, the next holder is told, reader or
/// writer, as [`Mutex`](super::Mutex) says; also if the writer was waiting for readers, and had
/// written nothing. A panic of a reader does not poison.
///
/// A reader that asks to write, or reads again while a writer waits, waits for itself for ever, as
/// in `std`.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{RwLock, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let prices = RwLock::create(&segment, "prices", [3u32, 5])?;
/// {
///     let (one, two) = (prices.read().unwrap(), prices.read().unwrap());
///     assert_eq!(*one, *two);
/// }
/// prices.write().unwrap()[0] = 4;
/// assert_eq!(*prices.read().unwrap(), [4, 5]);
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
pub struct RwLock<T: Pod> {
    placed: Placed<RwLockShape<T>>,
    local: Arc<Local<T>>,
}

type RwLockShape<T> = Valued<T, RwLockKind>;
type RwLockWords = Waited<robust::RobustRwLock>;

struct RwLockKind;

/// Offset of the entries of readers, one for each process.
const READS: usize = LINES;

impl ValueKind for RwLockKind {
    const KIND: u32 = kind::RWLOCK;
    const IS: &'static str = "a read-write lock";
    const VALUE: usize = READS + (MAX_ATTACHED * size_of::<Reads>()).next_multiple_of(LINES);
}

const _: () = assert!(size_of::<RwLockWords>() <= READS);

/// The right to read the value of an [`RwLock`]; dropping it lets a writer in.
///
/// It stays with the fiber or thread that locked: it is not [`Send`]. A migratable fiber takes it
/// along.
#[must_use = "an RwLock is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'l, T: Pod> {
    lock: &'l RwLock<T>,
    /// Dropped after the count of readers, which includes this guard, has been changed.
    _gate: SharedPass<'l>,
}

/// The right to use the value of an [`RwLock`] alone; dropping it writes changes back, and frees
/// the lock.
///
/// It stays with the fiber or thread that locked: it is not [`Send`]. A migratable fiber takes it
/// along.
#[must_use = "an RwLock is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'l, T: Pod> {
    lock: &'l RwLock<T>,
    changed: bool,
    poise: Poise,
    /// No other thread or fiber of this process uses the copy.
    _gate: SharedPass<'l>,
}

type TryResult<G> = Result<G, TryLockError<G>>;
type TimedResult<G> = Result<G, TimedLockError<G>>;

impl<T: Pod + Send + Sync> RwLock<T> {
    /// Makes a free lock around `value` in `segment`.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it.
    pub fn create(segment: &Segment, name: &str, value: T) -> Result<Self, SegmentError> {
        let placed = Placed::create_around(segment, name, &value)?;
        Self::of(placed, name)
    }

    /// Opens the lock of this name.
    ///
    /// # Errors
    ///
    /// If there is none, it is another kind of object, or its value has another type: one of
    /// another size, alignment or name, modules aside.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Self::of(Placed::open(segment, name)?, name)
    }

    /// Opens the lock of this name, and makes it around `value` if there is none. Any number of
    /// processes may do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(segment: &Segment, name: &str, value: T) -> Result<Self, SegmentError> {
        let placed = Placed::open_or_create_around(segment, name, &value)?;
        Self::of(placed, name)
    }

    fn of(placed: Placed<RwLockShape<T>>, name: &str) -> Result<Self, SegmentError> {
        let local = placed.private(name, Local::new)?;
        Ok(RwLock { placed, local })
    }
}

impl<T: Pod> RwLock<T> {
    /// Waits until there is no writer, waiting or active, and takes the lock for reading.
    ///
    /// # Errors
    ///
    /// If a writer died or panicked; the error has the guard.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`; or, where locks are tracked (see `sync::Mutex`), for itself.
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        for_ever(self.read_until(Deadline::NEVER))
    }

    /// Locks as [`read`](Self::read) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a writer died or panicked; then the error has the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn read_timeout(
        &self,
        timeout: impl Into<Deadline>,
    ) -> TimedResult<RwLockReadGuard<'_, T>> {
        self.read_until(timeout.into())
    }

    #[track_caller]
    fn read_until(&self, deadline: Deadline) -> TimedResult<RwLockReadGuard<'_, T>> {
        let gate = self.local.gate().read_until(deadline).ok_or(TimedLockError::TimedOut)?;
        let entered = self.local.enter(&self.reading(), deadline);
        let found = entered.ok_or(TimedLockError::TimedOut)?;
        Ok(mark_found(RwLockReadGuard { lock: self, _gate: gate }, found, self.segment())?)
    }

    /// Takes the lock for reading if there is no writer, waiting or active.
    ///
    /// # Errors
    ///
    /// If there is a writer, or a writer died or panicked; then the error has the guard.
    #[track_caller]
    pub fn try_read(&self) -> TryResult<RwLockReadGuard<'_, T>> {
        let gate = self.local.gate().try_read().ok_or(TryLockError::WouldBlock)?;
        let entered = self.local.try_enter(&self.reading());
        let found = entered.ok_or(TryLockError::WouldBlock)?;
        Ok(mark_found(RwLockReadGuard { lock: self, _gate: gate }, found, self.segment())?)
    }

    /// Waits until the lock is free, and takes it for writing.
    ///
    /// # Errors
    ///
    /// If a writer died or panicked; the error has the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        for_ever(self.write_until(Deadline::NEVER))
    }

    /// Locks as [`write`](Self::write) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a writer died or panicked; then the error has the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn write_timeout(
        &self,
        timeout: impl Into<Deadline>,
    ) -> TimedResult<RwLockWriteGuard<'_, T>> {
        self.write_until(timeout.into())
    }

    #[track_caller]
    fn write_until(&self, deadline: Deadline) -> TimedResult<RwLockWriteGuard<'_, T>> {
        let gate = self.local.gate().write_until(deadline).ok_or(TimedLockError::TimedOut)?;
        let found = self.word().lock(deadline).ok_or(TimedLockError::TimedOut)?;
        let claim = Claim { lock: self };
        if !self.drain(deadline) {
            return Err(TimedLockError::TimedOut);
        }
        claim.keep();
        Ok(self.write_guard(gate, found)?)
    }

    /// Takes the lock for writing if it is free.
    ///
    /// # Errors
    ///
    /// If it is not free, or a writer died or panicked; then the error has the guard.
    #[track_caller]
    pub fn try_write(&self) -> TryResult<RwLockWriteGuard<'_, T>> {
        let gate = self.local.gate().try_write().ok_or(TryLockError::WouldBlock)?;
        let found = self.word().try_lock().ok_or(TryLockError::WouldBlock)?;
        let claim = Claim { lock: self };
        if let Some(reader) = self.reader(0) {
            self.segment().watch(reader);
            return Err(TryLockError::WouldBlock);
        }
        claim.keep();
        Ok(self.write_guard(gate, found)?)
    }

    /// Waits until there is no reader, with the word in hand; returns false if the deadline has
    /// passed.
    fn drain(&self, deadline: Deadline) -> bool {
        let mut from = 0;
        while let Some(reader) = self.reader(from) {
            from = usize::from(reader.index());
            let entry = &self.reads()[from];
            if !self.at("RwLock::write").one(reader, deadline, || !entry.is(reader)) {
                return self.reader(from).is_none();
            }
        }
        true
    }

    /// Returns a reader at place `from` or behind that is not known to be dead.
    fn reader(&self, from: usize) -> Option<Holder> {
        self.words().word.reader(self.reads(), from, |holder| self.segment().is_gone(holder))
    }

    /// Makes the guard of a lock that was taken for writing.
    fn write_guard<'l>(
        &'l self,
        gate: SharedPass<'l>,
        found: FoundData,
    ) -> LockResult<RwLockWriteGuard<'l, T>> {
        let mut guard =
            RwLockWriteGuard { lock: self, changed: false, poise: Poise::of_caller(), _gate: gate };
        self.placed.value().read(bytemuck::bytes_of_mut(guard.copy()));
        mark_found(guard, found, self.segment())
    }

    /// Returns true if a writer is known to have died or panicked, and the value was not repaired
    /// since.
    pub fn is_poisoned(&self) -> bool {
        self.words().word.writer().is_poisoned()
    }

    /// Declares the value repaired. For the holder of the lock for writing.
    pub fn clear_poison(&self) {
        self.words().word.writer().clear_poison();
    }

    #[inline]
    fn segment(&self) -> &Segment {
        self.placed.segment()
    }

    #[inline]
    fn words(&self) -> &RwLockWords {
        self.placed.object.at(0)
    }

    #[inline]
    fn reads(&self) -> &[Reads] {
        self.placed.object.slice(READS, MAX_ATTACHED)
    }

    fn at<'l>(&'l self, operation: &'l str) -> At<'l> {
        At { segment: self.segment(), listeners: &self.words().waiting, operation }
    }

    #[inline]
    fn word(&self) -> MutexAt<'_> {
        MutexAt { word: self.words().word.writer(), at: self.at("RwLock::write") }
    }

    fn reading(&self) -> Reading<'_> {
        Reading {
            lock: &self.words().word,
            reads: self.reads(),
            value: self.placed.value(),
            at: self.at("RwLock::read"),
        }
    }
}

/// The word, while readers may remain: given back if the wait for them fails.
struct Claim<'l, T: Pod> {
    lock: &'l RwLock<T>,
}

impl<T: Pod> Claim<'_, T> {
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl<T: Pod> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        self.lock.word().unlock(false);
    }
}

impl<T: Pod> RwLockWriteGuard<'_, T> {
    fn copy(&mut self) -> &mut T {
        // SAFETY: this guard has the gate for writing, and is borrowed alone.
        unsafe { &mut *self.lock.local.copy() }
    }
}

impl<T: Pod> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is counted among the readers of the process. While there are any, the
        // copy is not written, and so it was before.
        unsafe { &*self.lock.local.copy() }
    }
}

impl<T: Pod> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard has the gate for writing: no other thread or fiber of the process
        // uses the copy.
        unsafe { &*self.lock.local.copy() }
    }
}

impl<T: Pod> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.changed = true;
        self.copy()
    }
}

impl<T: Pod> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.local.leave(&self.lock.reading());
    }
}

impl<T: Pod> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.changed {
            self.lock.placed.value().write(bytemuck::bytes_of(&**self));
        }
        self.lock.word().unlock(self.poise.is_lost());
    }
}

impl<T: Pod> Clone for RwLock<T> {
    fn clone(&self) -> Self {
        RwLock { placed: self.placed.clone(), local: Arc::clone(&self.local) }
    }
}

impl<T: Pod> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
