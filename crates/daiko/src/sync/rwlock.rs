//! Many readers, or one writer.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;

use daiko_core::fiber::WaiterId;
use daiko_core::semaphore::{MAX_PERMITS, RawSemaphore};

use super::holding::Holding;
use super::permits;
use super::poison::{LockResult, PoisonError, TimedLockError, TryLockError};
use crate::atomic::{AtomicBool, Ordering};
use daiko_rt::Deadline;
use daiko_rt::call::{self, Call, InCall, Item, ItemKind};
use daiko_rt::deadlock::{self, WaitKind};

/// The number of permits that a reader takes.
const READER: u32 = 1;
/// The number of permits that a writer takes: all of them.
const WRITER: u32 = MAX_PERMITS;

const READ: &(WaitKind, &str) = &(WaitKind::RwLock, "RwLock::read");
const WRITE: &(WaitKind, &str) = &(WaitKind::RwLock, "RwLock::write");

type TimedResult<G> = Result<G, TimedLockError<G>>;
type TryResult<G> = Result<G, TryLockError<G>>;

/// A lock around a value that many threads may read at a time, or one may write, as
/// [`std::sync::RwLock`].
///
/// A fiber that has to wait suspends; any other thread blocks. Waiters are served in FIFO order. A
/// writer waits for earlier readers, and later readers wait behind it, so that neither starves.
/// Readers that are next to each other in the queue enter together.
///
/// The lock is poisoned if a writer panics, as in `std`, or if a writer is lost with its [worker's
/// process](daiko_rt::process). Neither a reader nor a cancel poisons it.
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
/// A holder that asks for the lock again may wait for itself forever, as in `std`: a writer does,
/// and so does a reader if a writer has come in between. Where locks are
/// [tracked](super::Mutex#panics), a writer panics instead; with a timeout it waits, and reports
/// that the time is over. Readers are not tracked, as there may be many.
pub struct RwLock<T: ?Sized> {
    raw: RawSemaphore<WaiterId>,
    /// True if a writer panicked. Set by a writer; cleared by any thread.
    poisoned: AtomicBool,
    value: UnsafeCell<T>,
}

const _: () = assert!(size_of::<RwLock<()>>() == 24);

// SAFETY: a writer has exclusive access, and may run on a thread other than the thread that drops
// the value; readers share it.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

/// The right to read the value of an [`RwLock`]; dropping it lets a writer in.
///
/// As in `std`, it is not [`Send`]. A migratable fiber takes it along.
#[must_use = "an RwLock is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared reference to a guard gives only a shared reference to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

/// The exclusive right to use the value of an [`RwLock`]; dropping it lets waiters in.
///
/// As in `std`, it is not [`Send`]. A migratable fiber takes it along.
#[must_use = "an RwLock is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'l, T: ?Sized> {
    lock: &'l RwLock<T>,
    holding: Holding,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared reference to a guard gives only a shared reference to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    /// Creates a free lock around `value`.
    pub const fn new(value: T) -> Self {
        RwLock {
            raw: RawSemaphore::new(MAX_PERMITS),
            poisoned: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error contains the value.
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
    /// If a writer panicked; the error contains the guard.
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

    /// Takes the lock as [`read`](Self::read) does, but waits for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a writer panicked; then the error contains the guard.
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
    /// If a writer has it or waits for it, or a writer panicked; then the error contains the guard.
    pub fn try_read(&self) -> TryResult<RwLockReadGuard<'_, T>> {
        if permits::try_take(&self.raw, READER, self.reader()) {
            Ok(self.read_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Waits until the lock is free, and takes it for writing.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error contains the guard.
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

    /// Takes the lock as [`write`](Self::write) does, but waits for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a writer panicked; then the error contains the guard.
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

    /// Takes the lock for writing if it is free.
    ///
    /// # Errors
    ///
    /// If it is held, or a writer panicked; then the error contains the guard.
    #[track_caller]
    pub fn try_write(&self) -> TryResult<RwLockWriteGuard<'_, T>> {
        if permits::try_take(&self.raw, WRITER, self.writer()) {
            Ok(self.write_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// The item of a reader's robust list.
    /// Makes a reader's guard again that was forgotten: for locks of other languages, which have no
    /// guard.
    ///
    /// # Safety
    ///
    /// The calling fiber or thread has forgotten a guard of a reader, for which no other was made.
    #[doc(hidden)]
    pub unsafe fn read_guard_of(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard { lock: self, not_send: PhantomData }
    }

    /// Makes a writer's guard again that was taken apart.
    ///
    /// # Safety
    ///
    /// `record` is that of the guard that was [taken apart](RwLockWriteGuard::into_record) last, by
    /// the calling fiber or thread, and the lock is held since.
    #[doc(hidden)]
    pub unsafe fn write_guard_of(&self, record: u8) -> RwLockWriteGuard<'_, T> {
        let holding = Holding::from_bits(record);
        RwLockWriteGuard { lock: self, holding, not_send: PhantomData }
    }

    /// Returns true if no reader and no writer holds the lock. The answer may be out of date at
    /// once.
    #[doc(hidden)]
    pub fn is_free(&self) -> bool {
        self.raw.available() == MAX_PERMITS
    }

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
    fn acquire(&self, permits: u32, operation: &(WaitKind, &str), item: Item) {
        if call::notes_calls() {
            self.acquire_in_call(permits, operation, item);
        } else if !self.raw.try_acquire(permits) {
            // SAFETY: sections are not noted, as was just found; used by this call.
            self.acquire_slow(unsafe { InCall::unnoted() }, permits, operation);
        }
    }

    #[inline(never)]
    #[track_caller]
    fn acquire_in_call(&self, permits: u32, operation: &(WaitKind, &str), item: Item) {
        // SAFETY: it is an exchange of the permits' word.
        if !unsafe { Call::add_quickly(item, || self.raw.try_acquire(permits)) } {
            self.acquire_in_call_slow(permits, operation, item);
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn acquire_in_call_slow(&self, permits: u32, operation: &(WaitKind, &str), item: Item) {
        let call = Call::enter();
        if !self.raw.try_acquire(permits) {
            self.acquire_slow(call.token(), permits, operation);
        }
        call.add(item);
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn acquire_slow(&self, call: InCall<'_>, permits: u32, operation: &(WaitKind, &str)) {
        deadlock::assert_not_held(self.address(), "an RwLock");
        let _ = permits::acquire_slow(call, &self.raw, permits, operation, Deadline::NEVER);
    }

    /// The lock's identity where locks are tracked.
    #[inline]
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.raw).addr()
    }

    /// Makes the guard of a caller that has just taken the lock for reading, as its robust list
    /// records.
    #[inline]
    fn read_guard(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.unless_poisoned(RwLockReadGuard { lock: self, not_send: PhantomData })
    }

    /// Makes the guard of a caller that has just taken the lock for writing, as its robust list
    /// records.
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

    /// Returns true if a writer panicked.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        // Relaxed: the permits order a holder's load after the writer's store.
        self.poisoned.load(Ordering::Relaxed)
    }

    /// Clears the poison, so that the lock no longer reports a panic of a writer.
    pub fn clear_poison(&self) {
        self.poisoned.store(false, Ordering::Relaxed);
    }

    /// Returns the value without locking, as the lock is borrowed exclusively.
    ///
    /// # Errors
    ///
    /// If a writer panicked; the error contains the value.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<'l, T: ?Sized> RwLockWriteGuard<'l, T> {
    /// Takes the guard apart. The lock stays held until [`RwLock::write_guard_of`] has made the
    /// guard again.
    #[doc(hidden)]
    pub fn into_record(self) -> u8 {
        ManuallyDrop::new(self).holding.bits()
    }

    /// Turns the writer into a reader. No other writer comes in between, and readers that are first
    /// in line enter.
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
        let (call, guard) = (Call::enter(), ManuallyDrop::new(guard));
        let lock = guard.lock;
        guard.holding.strike_out(lock.address());
        call.remove(lock.writer());
        call.add(lock.reader());
        permits::release(call.token(), &lock.raw, WRITER - READER);
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
        // SAFETY: the guard's holder has the lock exclusively.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's holder has the lock exclusively, and the guard is borrowed
        // exclusively.
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
    // Relaxed: the release that follows makes it visible to the next holder.
    poisoned.store(true, Ordering::Relaxed);
}

/// Poisons and frees the lock in place of its writer, which is lost. The detail is the address of
/// the poison flag.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, raw, poisoned| {
        // SAFETY: the items of this kind are valid locks with their marks.
        let (raw, poisoned) = unsafe {
            (raw.cast::<RawSemaphore<WaiterId>>().as_ref(), &*poisoned.cast::<AtomicBool>())
        };
        poison(poisoned);
        permits::release(call, raw, WRITER);
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
