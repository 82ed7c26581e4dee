//! Mutual exclusion between processes.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::{Segment, SegmentError};
use bytemuck::Pod;
use daiko_core::robust::{self, FoundData};

use super::gate::{Gate, Pass};
use super::kind;
use super::placed::{LINES, Placed, ValueKind, Valued, Waited};
use super::poison::{LockResult, TimedLockError, TryLockError, for_ever, mark_found};
use super::wait::At;
use super::word::{MutexAt, Poise};
use daiko_rt::Deadline;
use daiko_rt::deadlock;

/// A lock around a value in a segment, which one fiber or thread of one process holds at a time.
///
/// The holder gets a copy of the value, and its changes are written back where it unlocks. So the
/// writes of a peer that does not keep to the protocol may be nonsense, but do not change a value
/// under a reference: they can spoil the value, and nothing else. It also means that the cost of a
/// lock grows with the size of the value; a large value is better split.
///
/// A fiber that has to wait suspends, any other thread blocks. The waiters of one process are
/// served in FIFO order. Between processes the first to come takes the lock, and no process is
/// promised a share.
///
/// # Deaths and panics
///
/// If a process dies while it holds the lock, the next process gets it at once, and is told:
/// [`Cause::OwnerDied`](super::Cause::OwnerDied). The value is as the dead process had found it,
/// unless it died while it wrote the value back: then a part of it is new. Until
/// [`clear_poison`](Self::clear_poison) is called, later holders are told
/// [`Cause::Poisoned`](super::Cause::Poisoned). The same holds if a holder panics: its changes
/// are written back as in `std`. It does not hold if the holder is cancelled.
///
/// A process that is stopped (SIGSTOP) keeps the lock.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Mutex, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let count = Mutex::create(&segment, "count", 0u64)?;
/// let adders: Vec<_> = (0..4)
///     .map(|_| {
///         let count = Mutex::<u64>::open(&segment, "count").unwrap();
///         std::thread::spawn(move || *count.lock().unwrap() += 1)
///     })
///     .collect();
/// adders.into_iter().for_each(|adder| adder.join().unwrap());
/// assert_eq!(*count.lock().unwrap(), 4);
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
pub struct Mutex<T: Pod> {
    placed: Placed<MutexShape<T>>,
    /// This process's copy (README.md gives the reason), for its holder or its waiter in the
    /// segment.
    copy: Arc<Gate<Box<T>>>,
}

type MutexShape<T> = Valued<T, MutexKind>;
type MutexWords = Waited<robust::RobustMutex>;

struct MutexKind;

impl ValueKind for MutexKind {
    const KIND: u32 = kind::MUTEX;
    const IS: &'static str = "a mutex";
    const VALUE: usize = LINES;
}

const _: () = assert!(size_of::<MutexWords>() <= LINES);

/// The right to use the value of a locked [`Mutex`]; dropping it writes changes back, and frees
/// the lock.
///
/// It stays with the fiber or thread that locked: it is not [`Send`]. A migratable fiber takes it
/// along.
#[must_use = "a mutex is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'m, T: Pod> {
    mutex: &'m Mutex<T>,
    copy: Pass<'m, Box<T>>,
    changed: bool,
    poise: Poise,
    /// True if this process notes that the caller holds the lock.
    is_tracked: bool,
}

type TryResult<'m, T> = Result<MutexGuard<'m, T>, TryLockError<MutexGuard<'m, T>>>;
type TimedResult<'m, T> = Result<MutexGuard<'m, T>, TimedLockError<MutexGuard<'m, T>>>;

impl<T: Pod + Send> Mutex<T> {
    /// Makes a free lock around `value` in `segment`.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it.
    pub fn create(segment: &Segment, name: &str, value: T) -> Result<Self, SegmentError> {
        let placed = Placed::create_around(segment, name, &value)?;
        Self::of(placed, name)
    }

    /// Opens the mutex of this name.
    ///
    /// # Errors
    ///
    /// If there is none, it is another kind of object, or its value has another type: one of
    /// another size, alignment or name, modules aside.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Self::of(Placed::open(segment, name)?, name)
    }

    /// Opens the mutex of this name, and makes it around `value` if there is none. Any number of
    /// processes may do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(segment: &Segment, name: &str, value: T) -> Result<Self, SegmentError> {
        let placed = Placed::open_or_create_around(segment, name, &value)?;
        Self::of(placed, name)
    }

    fn of(placed: Placed<MutexShape<T>>, name: &str) -> Result<Self, SegmentError> {
        let copy = placed.private(name, || Gate::new(zeroed()))?;
        Ok(Mutex { placed, copy })
    }
}

/// Returns a value of zeros, which never lies on the stack.
pub(super) fn zeroed<T: Pod>() -> Box<T> {
    // SAFETY: `Pod` says that zeros are a value.
    unsafe { Box::new_zeroed().assume_init() }
}

impl<T: Pod> Mutex<T> {
    /// Waits until the lock is free, and takes it.
    ///
    /// # Errors
    ///
    /// If a holder died or panicked; the error has the guard.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`; or for itself, where locks are tracked (see `sync::Mutex`): elsewhere that
    /// waits for ever.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        for_ever(self.lock_until(Deadline::NEVER))
    }

    /// Locks as [`lock`](Self::lock) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a holder died or panicked; then the error has the guard.
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    pub fn lock_timeout(&self, timeout: impl Into<Deadline>) -> TimedResult<'_, T> {
        self.lock_until(timeout.into())
    }

    #[track_caller]
    fn lock_until(&self, deadline: Deadline) -> TimedResult<'_, T> {
        let copy = self.copy.pass_until(deadline).ok_or(TimedLockError::TimedOut)?;
        let found = self.word().lock(deadline).ok_or(TimedLockError::TimedOut)?;
        Ok(self.guard(copy, found)?)
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    ///
    /// If it is not, or a holder died or panicked; then the error has the guard.
    #[track_caller]
    pub fn try_lock(&self) -> TryResult<'_, T> {
        let copy = self.copy.try_pass().ok_or(TryLockError::WouldBlock)?;
        let found = self.word().try_lock().ok_or(TryLockError::WouldBlock)?;
        Ok(self.guard(copy, found)?)
    }

    /// Makes the guard of a lock that was just taken.
    #[track_caller]
    fn guard<'m>(
        &'m self,
        mut copy: Pass<'m, Box<T>>,
        found: FoundData,
    ) -> LockResult<MutexGuard<'m, T>> {
        self.placed.value().read(bytemuck::bytes_of_mut(&mut **copy));
        let (poise, is_tracked) = (Poise::of_caller(), deadlock::taken(self.address()));
        let guard = MutexGuard { mutex: self, copy, changed: false, poise, is_tracked };
        mark_found(guard, found, self.placed.segment())
    }

    /// Returns true if a holder is known to have died or panicked, and the value was not repaired
    /// since.
    pub fn is_poisoned(&self) -> bool {
        self.words().word.is_poisoned()
    }

    /// Declares the value repaired. For the holder of the lock.
    pub fn clear_poison(&self) {
        self.words().word.clear_poison();
    }

    /// Returns the address by which other processes know the target of a wait for the lock.
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.words().waiting).addr()
    }

    #[inline]
    fn words(&self) -> &MutexWords {
        self.placed.object.at(0)
    }

    #[inline]
    fn word(&self) -> MutexAt<'_> {
        let MutexWords { word, waiting } = self.words();
        let at =
            At { segment: self.placed.segment(), listeners: waiting, operation: "Mutex::lock" };
        MutexAt { word, at }
    }
}

impl<'m, T: Pod> MutexGuard<'m, T> {
    /// Returns the mutex.
    pub(super) fn mutex(&self) -> &'m Mutex<T> {
        self.mutex
    }
}

impl<T: Pod> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.copy
    }
}

impl<T: Pod> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.changed = true;
        &mut self.copy
    }
}

impl<T: Pod> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.changed {
            self.mutex.placed.value().write(bytemuck::bytes_of(&**self.copy));
        }
        if self.is_tracked {
            deadlock::freed(self.mutex.address());
        }
        self.mutex.word().unlock(self.poise.is_lost());
    }
}

impl<T: Pod> Clone for Mutex<T> {
    fn clone(&self) -> Self {
        Mutex { placed: self.placed.clone(), copy: Arc::clone(&self.copy) }
    }
}

impl<T: Pod> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
