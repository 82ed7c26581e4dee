//! The locks of the C library, called as from C.
//!
//! Their results are not looked at: each of these calls fails for a misuse only,
//! and every measurement proves by its outcome that the locks did what they
//! should.

use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
};

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER};

use crate::costs::locks::{self, Pair};

/// Who locked has to unlock: guards do not leave their thread.
type OfItsThread = PhantomData<*const ()>;

/// A `pthread_mutex_t` of the default kind.
pub(super) struct Mutex {
    raw: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<u64>,
}

// SAFETY: the mutex is used through its own functions only, which synchronise,
// and the value by its holder alone.
unsafe impl Sync for Mutex {}

impl Default for Mutex {
    fn default() -> Self {
        Self { raw: UnsafeCell::new(PTHREAD_MUTEX_INITIALIZER), value: UnsafeCell::new(0) }
    }
}

impl locks::Mutex for Mutex {
    type Guard<'a> = Held<'a>;

    #[inline]
    fn lock(&self) -> Held<'_> {
        // SAFETY: initialised, and not moved while it is locked or waited for: guards borrow it.
        unsafe { libc::pthread_mutex_lock(self.raw.get()) };
        Held(self, PhantomData)
    }

    fn try_lock(&self) -> Option<Held<'_>> {
        // SAFETY: as in `lock`.
        let result = unsafe { libc::pthread_mutex_trylock(self.raw.get()) };
        (result == 0).then(|| Held(self, PhantomData))
    }
}

impl Drop for Mutex {
    fn drop(&mut self) {
        // SAFETY: initialised, and unlocked: guards borrow it.
        unsafe { libc::pthread_mutex_destroy(self.raw.get()) };
    }
}

/// A [`Mutex`] that is locked.
pub(super) struct Held<'a>(&'a Mutex, OfItsThread);

impl Deref for Held<'_> {
    type Target = u64;

    #[inline]
    fn deref(&self) -> &u64 {
        // SAFETY: the holder alone reaches the value.
        unsafe { &*self.0.value.get() }
    }
}

impl DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut u64 {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0.value.get() }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: initialised, and locked by this thread, which a guard does not leave.
        unsafe { libc::pthread_mutex_unlock(self.0.raw.get()) };
    }
}

/// A `pthread_cond_t`.
pub(super) struct Condvar(UnsafeCell<libc::pthread_cond_t>);

// SAFETY: it is used through its own functions only, which synchronise.
unsafe impl Sync for Condvar {}

impl Default for Condvar {
    fn default() -> Self {
        Self(UnsafeCell::new(PTHREAD_COND_INITIALIZER))
    }
}

impl locks::Condvar<Mutex> for Condvar {
    #[inline]
    fn wait<'a>(&'a self, guard: Held<'a>) -> Held<'a> {
        // SAFETY: both are initialised, and not moved while this thread waits, as it borrows
        // them. It holds the mutex, and all use the one mutex that is beside this.
        unsafe { libc::pthread_cond_wait(self.0.get(), guard.0.raw.get()) };
        guard
    }

    #[inline]
    fn notify_one(&self) {
        // SAFETY: initialised.
        unsafe { libc::pthread_cond_signal(self.0.get()) };
    }
}

impl Drop for Condvar {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody waits: who waits borrows it.
        unsafe { libc::pthread_cond_destroy(self.0.get()) };
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
