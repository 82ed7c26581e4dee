//! Mutex, readers-writer lock and condition variable, as raw locks of `lock_api`.
//!
//! The results of the mutex and of unlocks are ignored: such a call fails for a misuse only that
//! the types rule out. A readers-writer lock reports a thread that would wait for itself.

use std::cell::UnsafeCell;

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER};
use parking_lot::lock_api::{self, GuardNoSend, MutexGuard};

/// A `pthread_mutex_t` of the default kind around a value.
pub(crate) type PthreadMutex<T> = lock_api::Mutex<RawMutex, T>;
/// A [`Mutex`] that is locked by the current thread.
pub(crate) type Guard<'a, T> = MutexGuard<'a, RawMutex, T>;
/// A `pthread_rwlock_t` of the default kind, which prefers readers, around a value.
pub(crate) type PthreadRwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// A `pthread_mutex_t`.
pub(crate) struct RawMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the mutex is used through its own functions only, which synchronise, and does not
// depend on its address while it is unlocked.
unsafe impl Send for RawMutex {}
// SAFETY: see `Send`.
unsafe impl Sync for RawMutex {}

// SAFETY: the C library's mutex excludes, and is unlocked by the thread that locked it, because its
// guards are not `Send`.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self(UnsafeCell::new(PTHREAD_MUTEX_INITIALIZER));

    type Guard = GuardNoSend;

    #[inline]
    fn lock(&self) -> GuardNoSend {
        // SAFETY: initialised, and not moved while it is locked or waited for: guards borrow it.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        GuardNoSend::new()
    }

    fn try_lock(&self) -> Option<GuardNoSend> {
        // SAFETY: see `lock`.
        let result = unsafe { libc::pthread_mutex_trylock(self.0.get()) };
        (result == 0).then_some(GuardNoSend::new())
    }

    #[inline]
    unsafe fn unlock(&self, _: GuardNoSend) {
        // SAFETY: initialised, and locked by this thread, as its guard cannot move to another
        // thread.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    fn is_locked(&self) -> bool {
        // SAFETY: `unlock` gets the guard that `try_lock` returned.
        self.try_lock().map(|guard| unsafe { self.unlock(guard) }).is_none()
    }
}

impl Drop for RawMutex {
    fn drop(&mut self) {
        // A forgotten guard leaves it locked, and then it is not destroyed.
        if !lock_api::RawMutex::is_locked(self) {
            // SAFETY: initialised and unlocked, and borrowed by no other thread.
            unsafe { libc::pthread_mutex_destroy(self.0.get()) };
        }
    }
}

/// A `pthread_rwlock_t`.
pub(crate) struct RawRwLock(UnsafeCell<libc::pthread_rwlock_t>);

// SAFETY: see `RawMutex`.
unsafe impl Send for RawRwLock {}
// SAFETY: see `RawMutex`.
unsafe impl Sync for RawRwLock {}

impl RawRwLock {
    /// Returns the guard if `result` means that the call has locked.
    fn locked(result: i32) -> Option<GuardNoSend> {
        (result == 0).then_some(GuardNoSend::new())
    }
}

// SAFETY: the C library's lock excludes writers from readers and writers, and is unlocked by the
// thread that locked it, because its guards are not `Send`.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self(UnsafeCell::new(PTHREAD_RWLOCK_INITIALIZER));

    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    #[inline]
    fn lock_shared(&self) -> GuardNoSend {
        // SAFETY: initialised, and not moved while it is locked or waited for: guards borrow it.
        let result = unsafe { libc::pthread_rwlock_rdlock(self.0.get()) };
        assert_eq!(result, 0, "a reader that writes, or too many readers");
        GuardNoSend::new()
    }

    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        // SAFETY: see `lock_shared`.
        Self::locked(unsafe { libc::pthread_rwlock_tryrdlock(self.0.get()) })
    }

    #[inline]
    unsafe fn unlock_shared(&self, _: GuardNoSend) {
        // SAFETY: initialised, and locked by this thread, as its guard cannot move to another
        // thread.
        unsafe { libc::pthread_rwlock_unlock(self.0.get()) };
    }

    #[inline]
    fn lock_exclusive(&self) -> GuardNoSend {
        // SAFETY: see `lock_shared`.
        let result = unsafe { libc::pthread_rwlock_wrlock(self.0.get()) };
        assert_eq!(result, 0, "a writer that writes already");
        GuardNoSend::new()
    }

    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        // SAFETY: see `lock_shared`.
        Self::locked(unsafe { libc::pthread_rwlock_trywrlock(self.0.get()) })
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, guard: GuardNoSend) {
        // SAFETY: guaranteed by the caller; the C library has one call for both.
        unsafe { self.unlock_shared(guard) };
    }

    fn is_locked(&self) -> bool {
        // SAFETY: the guard is that of the lock that was just acquired.
        self.try_lock_exclusive().map(|guard| unsafe { self.unlock_exclusive(guard) }).is_none()
    }

    fn is_locked_exclusive(&self) -> bool {
        // SAFETY: the guard is that of the lock that was just acquired.
        self.try_lock_shared().map(|guard| unsafe { self.unlock_shared(guard) }).is_none()
    }
}

impl Drop for RawRwLock {
    fn drop(&mut self) {
        // A forgotten guard leaves it locked, and then it is not destroyed.
        if !lock_api::RawRwLock::is_locked(self) {
            // SAFETY: initialised and unlocked, and borrowed by no other thread.
            unsafe { libc::pthread_rwlock_destroy(self.0.get()) };
        }
    }
}

/// A `pthread_cond_t`.
pub(crate) struct PthreadCondvar(UnsafeCell<libc::pthread_cond_t>);

// SAFETY: it is used through its own functions only, which synchronise.
unsafe impl Sync for PthreadCondvar {}

impl PthreadCondvar {
    /// Unlocks, waits for a notification, and locks again. May return without a notification.
    ///
    /// # Safety
    /// All concurrent waiters must use the same mutex.
    #[inline]
    pub(crate) unsafe fn wait<'a, T>(&self, guard: Guard<'a, T>) -> Guard<'a, T> {
        // SAFETY: both are initialised, and not moved while this thread waits, as it borrows them.
        // This thread holds the mutex, and the caller guarantees that all concurrent waiters use
        // it.
        unsafe { libc::pthread_cond_wait(self.0.get(), MutexGuard::mutex(&guard).raw().0.get()) };
        guard
    }

    /// Wakes one waiter, if there is any.
    #[inline]
    pub(crate) fn notify_one(&self) {
        // SAFETY: initialised.
        unsafe { libc::pthread_cond_signal(self.0.get()) };
    }
}

impl Default for PthreadCondvar {
    fn default() -> Self {
        Self(UnsafeCell::new(PTHREAD_COND_INITIALIZER))
    }
}

impl Drop for PthreadCondvar {
    fn drop(&mut self) {
        // SAFETY: initialised, and there are no waiters, as each of them borrows the condition
        // variable.
        unsafe { libc::pthread_cond_destroy(self.0.get()) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_mutex_lets_one_thread_at_a_time_in() {
        const TIMES: u32 = 200;
        let mutex = PthreadMutex::new(0);
        let count = || {
            let mut held = mutex.lock();
            let before = *held;
            thread::yield_now();
            *held = before + 1;
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..TIMES).for_each(|_| count()));
            }
        });
        assert_eq!(*mutex.lock(), 4 * TIMES);
    }

    #[test]
    fn a_mutex_is_free_when_its_guard_is_gone() {
        let mutex = PthreadMutex::<u32>::default();
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(held);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn a_writer_excludes_and_readers_exclude_writers() {
        let lock = PthreadRwLock::new(1);
        let reader = lock.read();
        assert!(lock.try_read().is_some() && lock.try_write().is_none());
        assert!(lock.is_locked() && !lock.is_locked_exclusive());
        drop(reader);
        let writer = lock.write();
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        assert!(lock.is_locked() && lock.is_locked_exclusive());
        drop(writer);
        assert!(!lock.is_locked() && lock.try_write().is_some());
    }

    #[test]
    fn a_waiter_releases_the_mutex_and_holds_it_again() {
        let (turn, changed) = (PthreadMutex::new(0), PthreadCondvar::default());
        let take = |from: u32| {
            let mut held = turn.lock();
            while *held != from {
                // SAFETY: both threads wait with this mutex.
                held = unsafe { changed.wait(held) };
            }
            let locked = turn.try_lock().is_none();
            *held += 1;
            drop(held);
            changed.notify_one();
            assert!(locked);
        };
        thread::scope(|scope| {
            scope.spawn(|| [1, 3].into_iter().for_each(take));
            [0, 2, 4].into_iter().for_each(take);
        });
        assert_eq!(*turn.lock(), 5);
    }
}
