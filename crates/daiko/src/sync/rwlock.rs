//! Many readers, or one writer.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use daiko_core::fiber::WaiterId;
use daiko_core::semaphore::{MAX_PERMITS, RawSemaphore};

use super::holding::Holding;
use super::permits;
use super::poison::{LockResult, PoisonError, TimedLockError, TryLockError};
use daiko_rt::deadlock::{self, Kind};
use daiko_rt::process::{self, Item, ItemKind, estate};
use daiko_rt::wait::Deadline;

/// What a reader takes of the permits.
const READER: u32 = 1;
/// What a writer takes: all there are.
const WRITER: u32 = MAX_PERMITS;

const READ: &(Kind, &str) = &(Kind::RwLock, "RwLock::read");
const WRITE: &(Kind, &str) = &(Kind::RwLock, "RwLock::write");

type TimedResult<G> = Result<G, TimedLockError<G>>;
type TryResult<G> = Result<G, TryLockError<G>>;

/// A lock around a value that many may read at a time, or one write, as [`std::sync::RwLock`].
///
/// A fiber that has to wait suspends, any other thread blocks. Who waits is served in turn: a writer
/// waits for those who came before, and readers who come later wait behind him, so that neither
/// starves. Readers who stand in line together enter together.
///
/// It is poisoned where a writer panics, as in `std`, or is lost with its [worker's process](daiko_rt::process); not by a
/// reader, and not by a cancel.
///
/// ```
/// use daiko::sync::RwLock;
/// use std::sync::Arc;
///
/// daiko::run(|| {
///     let prices = Arc::new(RwLock::new(vec![3, 5]));
///     let sums: Vec<_> = (0..4)
///         .map(|_| {
///             let prices = Arc::clone(&prices);
///             daiko::spawn(move || prices.read().unwrap().iter().sum::<i32>())
///         })
///         .collect();
///     prices.write().unwrap().push(0);
///     sums.into_iter().for_each(|sum| assert_eq!(sum.join().unwrap(), 8));
/// });
/// ```
///
/// Only a guard unlocks, and only a writer's guard can write:
///
/// ```compile_fail
/// *daiko::sync::RwLock::new(0).read().unwrap() = 1;
/// ```
///
/// # Panics
///
/// Who has the lock and asks for it again may wait for himself for ever, as in `std`: a writer does,
/// and so does a reader if a writer has come in between. Where locks are
/// [tracked](super::Mutex#panics) a writer panics instead; with a timeout he waits, and is told when the
/// time is over. Who reads is not tracked, as many may.
pub struct RwLock<T: ?Sized> {
    raw: RawSemaphore<WaiterId>,
    /// Whether a writer panicked. Set by a writer; cleared by anyone.
    poisoned: AtomicBool,
    value: UnsafeCell<T>,
}

const _: () = assert!(size_of::<RwLock<()>>() == 24);

// SAFETY: a writer has the value alone, and may be on another thread than who drops it; readers
// have it beside each other.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

/// The right to read the value of an [`RwLock`]; dropping it lets a writer in.
///
/// As in `std`, it is not [`Send`]. A mover takes it along.
#[must_use = "an RwLock is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: by reference a guard gives what the value's own type allows.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

/// The right to use the value of an [`RwLock`] alone; dropping it lets others in.
///
/// As in `std`, it is not [`Send`]. A mover takes it along.
#[must_use = "an RwLock is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
    holding: Holding,
    not_send: PhantomData<*const ()>,
}

// SAFETY: by reference a guard gives what the value's own type allows.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    /// A lock around `value` that nobody has.
    pub const fn new(value: T) -> Self {
        RwLock {
            raw: RawSemaphore::new(MAX_PERMITS),
            poisoned: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error has the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.value.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer has the lock or waits for it, and takes it for reading.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error has the guard.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller); or, where locks are [tracked](Self#panics), for itself.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.acquire(READER, READ, self.reader());
        self.read_guard()
    }

    /// As [`read`](Self::read), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a writer panicked; then the error has the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    pub fn read_timeout(
        &self,
        timeout: impl Into<Deadline>,
    ) -> TimedResult<RwLockReadGuard<'_, T>> {
        self.read_until(|| timeout.into())
    }

    pub(crate) fn read_until(
        &self,
        deadline: impl FnOnce() -> Deadline,
    ) -> TimedResult<RwLockReadGuard<'_, T>> {
        if permits::take_in_call(&self.raw, READER, READ, self.reader(), deadline) {
            Ok(self.read_guard()?)
        } else {
            Err(TimedLockError::TimedOut)
        }
    }

    /// Takes the lock for reading if no writer has it or waits for it.
    ///
    /// # Errors
    ///
    /// If one does, or a writer panicked; then the error has the guard.
    pub fn try_read(&self) -> TryResult<RwLockReadGuard<'_, T>> {
        if permits::try_take(&self.raw, READER, self.reader()) {
            Ok(self.read_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Waits until nobody has the lock, and takes it for writing.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error has the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[inline]
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.acquire(WRITER, WRITE, self.writer());
        self.write_guard()
    }

    /// As [`write`](Self::write), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a writer panicked; then the error has the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn write_timeout(
        &self,
        timeout: impl Into<Deadline>,
    ) -> TimedResult<RwLockWriteGuard<'_, T>> {
        self.write_until(|| timeout.into())
    }

    #[track_caller]
    pub(crate) fn write_until(
        &self,
        deadline: impl FnOnce() -> Deadline,
    ) -> TimedResult<RwLockWriteGuard<'_, T>> {
        if permits::take_in_call(&self.raw, WRITER, WRITE, self.writer(), deadline) {
            Ok(self.write_guard()?)
        } else {
            Err(TimedLockError::TimedOut)
        }
    }

    /// Takes the lock for writing if nobody has it.
    ///
    /// # Errors
    ///
    /// If somebody does, or a writer panicked; then the error has the guard.
    #[track_caller]
    pub fn try_write(&self) -> TryResult<RwLockWriteGuard<'_, T>> {
        if permits::try_take(&self.raw, WRITER, self.writer()) {
            Ok(self.write_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Takes so many permits, waiting for them in the name of `what`; a writer's name what he poisons.
    /// The item of a reader's robust list.
    #[inline]
    fn reader(&self) -> Item {
        permits::item(&self.raw, READER)
    }

    /// The item of a writer's robust list.
    #[inline]
    fn writer(&self) -> Item {
        Item::new(&self.raw, ptr::from_ref(&self.poisoned).cast(), &RECOVERY)
    }

    #[inline]
    #[track_caller]
    fn acquire(&self, permits: u32, what: &(Kind, &str), item: Item) {
        if process::notes_calls() {
            self.acquire_in_call(permits, what, item);
        } else if !self.raw.try_acquire(permits) {
            self.acquire_slow(permits, what);
        }
    }

    #[inline(never)]
    #[track_caller]
    fn acquire_in_call(&self, permits: u32, what: &(Kind, &str), item: Item) {
        if !estate::gains_quickly(item, || self.raw.try_acquire(permits)) {
            self.acquire_in_call_slow(permits, what, item);
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn acquire_in_call_slow(&self, permits: u32, what: &(Kind, &str), item: Item) {
        let call = process::call();
        if !self.raw.try_acquire(permits) {
            self.acquire_slow(permits, what);
        }
        call.gains(item);
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn acquire_slow(&self, permits: u32, what: &(Kind, &str)) {
        deadlock::assert_not_held(self.address(), "an RwLock");
        let _ = permits::acquire_slow(&self.raw, permits, what, Deadline::NEVER);
    }

    /// What the lock is known by where locks are tracked.
    #[inline]
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.raw).addr()
    }

    /// For who has just taken the lock for reading, as its estate says.
    #[inline]
    fn read_guard(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.unless_poisoned(RwLockReadGuard { lock: self, not_send: PhantomData })
    }

    /// For who has just taken the lock for writing, as its estate says.
    #[inline]
    #[track_caller]
    fn write_guard(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let holding = Holding::of_caller(self.address());
        self.unless_poisoned(RwLockWriteGuard { lock: self, holding, not_send: PhantomData })
    }

    #[inline]
    fn unless_poisoned<G>(&self, guard: G) -> LockResult<G> {
        if self.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Whether a writer panicked.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        // Relaxed: who has the lock sees what the writer left, by the permits.
        self.poisoned.load(Ordering::Relaxed)
    }

    /// Takes back that a writer panicked.
    pub fn clear_poison(&self) {
        self.poisoned.store(false, Ordering::Relaxed);
    }

    /// The value, which nobody else has, as the lock is borrowed alone.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error has the value.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<'l, T: ?Sized> RwLockWriteGuard<'l, T> {
    /// Goes on as a reader: no other writer comes in between, and readers who are first in line enter.
    ///
    /// ```
    /// # daiko::run(|| {
    /// use daiko::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let mut writer = lock.write().unwrap();
    /// *writer += 1;
    /// let reader = RwLockWriteGuard::downgrade(writer);
    /// assert_eq!((*reader, *lock.read().unwrap()), (2, 2));
    /// # });
    /// ```
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'l, T> {
        let (call, guard) = (process::call(), ManuallyDrop::new(guard));
        let lock = guard.lock;
        guard.holding.strike_out(lock.address());
        call.parts_with(lock.writer());
        call.gains(lock.reader());
        permits::release(&lock.raw, WRITER - READER);
        RwLockReadGuard { lock, not_send: PhantomData }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's holder keeps writers out.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's holder has the lock alone.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's holder has the lock alone, and the guard is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        permits::give_back(&self.lock.raw, READER, self.lock.reader());
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.holding.ends_in_panic(self.lock.address()) {
            poison(&self.lock.poisoned);
        }
        permits::give_back(&self.lock.raw, WRITER, self.lock.writer());
    }
}

fn poison(poisoned: &AtomicBool) {
    // Relaxed: who takes the lock next sees it, by the release that follows.
    poisoned.store(true, Ordering::Relaxed);
}

/// Poisons and frees the lock in the stead of its writer, which is lost. The detail is the address
/// of the mark of the poison.
static RECOVERY: ItemKind = ItemKind {
    recover: |raw, poisoned, _| {
        // SAFETY: the items of this kind are valid locks with their marks.
        let (raw, poisoned) = unsafe {
            (raw.cast::<RawSemaphore<WaiterId>>().as_ref(), &*poisoned.cast::<AtomicBool>())
        };
        poison(poisoned);
        permits::release(raw, WRITER);
    },
};

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => debug.field("value", &&*guard),
            Err(TryLockError::Poisoned(error)) => debug.field("value", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => debug.field("value", &format_args!("<locked>")),
        };
        debug.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}
