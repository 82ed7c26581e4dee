//! Mutex and condition variable.
//!
//! Their results are not looked at: each of these calls fails for a misuse only,
//! and every measurement proves by its outcome that the locks did what they
//! should.

use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

/// A `pthread_mutex_t` of the default kind, around a value.
pub(crate) struct Mutex<T> {
    raw: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex is used through its own functions only, which synchronise,
// and the value by its holder alone, one thread after the other.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked one.
    pub(crate) fn new(value: T) -> Self {
        let raw = UnsafeCell::new(PTHREAD_MUTEX_INITIALIZER);
        Self { raw, value: UnsafeCell::new(value) }
    }

    /// Waits until nobody holds it. Who holds it already waits for ever.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: initialised, and not moved while it is locked or waited for: guards borrow it.
        unsafe { libc::pthread_mutex_lock(self.raw.get()) };
        Guard(self, PhantomData)
    }

    /// Without waiting.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        // SAFETY: as in `lock`.
        let result = unsafe { libc::pthread_mutex_trylock(self.raw.get()) };
        (result == 0).then(|| Guard(self, PhantomData))
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Drop for Mutex<T> {
    fn drop(&mut self) {
        // SAFETY: initialised, and unlocked: guards borrow it, and nobody forgets one.
        unsafe { libc::pthread_mutex_destroy(self.raw.get()) };
    }
}

/// A [`Mutex`] that is locked, by the thread that has this.
#[must_use = "unlocks when it is dropped"]
pub(crate) struct Guard<'a, T>(&'a Mutex<T>, PhantomData<*const ()>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the holder alone reaches the value.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: initialised, and locked by this thread, which a guard does not leave.
        unsafe { libc::pthread_mutex_unlock(self.0.raw.get()) };
    }
}

/// A `pthread_cond_t`.
pub(crate) struct Condvar(UnsafeCell<libc::pthread_cond_t>);

// SAFETY: it is used through its own functions only, which synchronise.
unsafe impl Sync for Condvar {}

impl Condvar {
    /// Unlocks, waits for a notification, and locks again. May return without one.
    ///
    /// # Safety
    /// All who wait at the same time do so with the same mutex.
    #[inline]
    pub(crate) unsafe fn wait<'a, T>(&self, guard: Guard<'a, T>) -> Guard<'a, T> {
        // SAFETY: both are initialised, and not moved while this thread waits, as it borrows them.
        // It holds the mutex, and that all others use the same is the caller's to say.
        unsafe { libc::pthread_cond_wait(self.0.get(), guard.0.raw.get()) };
        guard
    }

    /// Wakes one who waits, if anybody does.
    #[inline]
    pub(crate) fn notify_one(&self) {
        // SAFETY: initialised.
        unsafe { libc::pthread_cond_signal(self.0.get()) };
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self(UnsafeCell::new(PTHREAD_COND_INITIALIZER))
    }
}

impl Drop for Condvar {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody waits: who waits borrows it.
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
        let mutex = Mutex::new(0);
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
        let mutex = Mutex::<u32>::default();
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(held);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn who_waits_lets_others_in_and_holds_the_mutex_again() {
        let (turn, changed) = (Mutex::new(0), Condvar::default());
        let take = |from: u32| {
            let mut held = turn.lock();
            while *held != from {
                // SAFETY: both threads wait with this one mutex.
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
