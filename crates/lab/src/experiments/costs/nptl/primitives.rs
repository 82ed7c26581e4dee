//! The locks of the C library, called as from C. Mutex and condition variable are
//! those of [`crate::kit::pthread`].
//!
//! Their results are not looked at: each of these calls fails for a misuse only,
//! and every measurement proves by its outcome that the locks did what they
//! should.

use std::{
    cell::UnsafeCell,
    io,
    marker::PhantomData,
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use libc::PTHREAD_RWLOCK_INITIALIZER;

use crate::{
    experiments::costs::locks::{self, Pair},
    kit::pthread::{Condvar, Guard, Mutex, timespec},
};

/// Who locked has to unlock: guards do not leave their thread.
type OfItsThread = PhantomData<*const ()>;

impl locks::Mutex for Mutex<u64> {
    type Guard<'a> = Guard<'a, u64>;

    #[inline]
    fn lock(&self) -> Guard<'_, u64> {
        self.lock()
    }

    fn try_lock(&self) -> Option<Guard<'_, u64>> {
        self.try_lock()
    }
}

impl locks::Condvar<Mutex<u64>> for Condvar {
    #[inline]
    fn wait<'a>(&'a self, guard: Guard<'a, u64>) -> Guard<'a, u64> {
        // SAFETY: it belongs to one mutex, as the trait says.
        unsafe { self.wait(guard) }
    }

    #[inline]
    fn notify_one(&self) {
        self.notify_one();
    }
}

/// A `sem_t`, which keeps its place.
pub(super) struct Semaphore(Box<UnsafeCell<MaybeUninit<libc::sem_t>>>);

// SAFETY: it is used through its own functions only, which synchronise.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    #[inline]
    fn raw(&self) -> *mut libc::sem_t {
        self.0.get().cast()
    }
}

impl locks::Semaphore for Semaphore {
    fn holding(permits: u32) -> Self {
        let semaphore = Self(Box::new(UnsafeCell::new(MaybeUninit::uninit())));
        // SAFETY: valid for writes, at its final place.
        let result = unsafe { libc::sem_init(semaphore.raw(), 0, permits) };
        assert_eq!(result, 0, "permits beyond SEM_VALUE_MAX");
        semaphore
    }

    #[inline]
    fn acquire(&self) {
        // SAFETY: initialised. It fails for a signal handler only.
        while unsafe { libc::sem_wait(self.raw()) } != 0 {}
    }

    fn try_acquire(&self) -> bool {
        // SAFETY: initialised.
        unsafe { libc::sem_trywait(self.raw()) == 0 }
    }

    fn acquire_within(&self, timeout: Duration) -> bool {
        // By the clock that is set: the call knows no other.
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + timeout;
        let end = timespec(end);
        loop {
            // SAFETY: initialised; the time is a live local.
            if unsafe { libc::sem_timedwait(self.raw(), &end) } == 0 {
                return true;
            }
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return false;
            }
        }
    }

    #[inline]
    fn release(&self) {
        // SAFETY: initialised.
        unsafe { libc::sem_post(self.raw()) };
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody waits: who waits borrows it.
        unsafe { libc::sem_destroy(self.raw()) };
    }
}

/// A `pthread_rwlock_t` of the default kind, which prefers readers.
pub(super) struct RwLock {
    raw: UnsafeCell<libc::pthread_rwlock_t>,
    value: UnsafeCell<Pair>,
}

// SAFETY: the lock is used through its own functions only, which synchronise,
// and the value by its holders, written by a writer alone.
unsafe impl Sync for RwLock {}

impl Default for RwLock {
    fn default() -> Self {
        let value = UnsafeCell::new(Pair::default());
        Self { raw: UnsafeCell::new(PTHREAD_RWLOCK_INITIALIZER), value }
    }
}

impl locks::RwLock for RwLock {
    type Read<'a> = Read<'a>;
    type Write<'a> = Write<'a>;

    #[inline]
    fn read(&self) -> Read<'_> {
        // SAFETY: initialised, and not moved while it is locked or waited for: guards borrow it.
        unsafe { libc::pthread_rwlock_rdlock(self.raw.get()) };
        Read(self, PhantomData)
    }

    #[inline]
    fn write(&self) -> Write<'_> {
        // SAFETY: as in `read`.
        unsafe { libc::pthread_rwlock_wrlock(self.raw.get()) };
        Write(self, PhantomData)
    }
}

impl RwLock {
    #[inline]
    fn unlock(&self) {
        // SAFETY: initialised, and locked by this thread, which a guard does not leave.
        unsafe { libc::pthread_rwlock_unlock(self.raw.get()) };
    }
}

impl Drop for RwLock {
    fn drop(&mut self) {
        // SAFETY: initialised, and unlocked: guards borrow it.
        unsafe { libc::pthread_rwlock_destroy(self.raw.get()) };
    }
}

/// A [`RwLock`] that is locked for reading.
pub(super) struct Read<'a>(&'a RwLock, OfItsThread);

impl Deref for Read<'_> {
    type Target = Pair;

    #[inline]
    fn deref(&self) -> &Pair {
        // SAFETY: nobody writes while a reader holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl Drop for Read<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// A [`RwLock`] that is locked for writing.
pub(super) struct Write<'a>(&'a RwLock, OfItsThread);

impl Deref for Write<'_> {
    type Target = Pair;

    #[inline]
    fn deref(&self) -> &Pair {
        // SAFETY: a writer alone reaches the value.
        unsafe { &*self.0.value.get() }
    }
}

impl DerefMut for Write<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Pair {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0.value.get() }
    }
}

impl Drop for Write<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}
