//! The locks of the C library, called as from C. Mutex and condition variable are those of
//! [`crate::kit::pthread`].
//!
//! Results are ignored: each of these calls fails for a misuse only, and the outcome of every
//! measurement proves that the locks worked.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::experiments::costs::locks;
use crate::kit::pthread::{Guard, PthreadCondvar, PthreadMutex, timespec};

impl locks::TestedCondvar<PthreadMutex<u64>> for PthreadCondvar {
    #[inline]
    fn wait<'a>(&'a self, guard: Guard<'a, u64>) -> Guard<'a, u64> {
        // SAFETY: the condition variable belongs to one mutex, by the contract of the trait.
        unsafe { self.wait(guard) }
    }

    #[inline]
    fn notify_one(&self) {
        self.notify_one();
    }
}

/// A `sem_t` at a fixed address.
pub(super) struct PosixSemaphore(Box<UnsafeCell<MaybeUninit<libc::sem_t>>>);

// SAFETY: it is used through its own functions only, which synchronise.
unsafe impl Sync for PosixSemaphore {}

impl PosixSemaphore {
    #[inline]
    fn raw(&self) -> *mut libc::sem_t {
        self.0.get().cast()
    }
}

impl locks::TestedSemaphore for PosixSemaphore {
    fn holding(permits: u32) -> Self {
        let semaphore = Self(Box::new(UnsafeCell::new(MaybeUninit::uninit())));
        // SAFETY: valid for writes, at its final place.
        let result = unsafe { libc::sem_init(semaphore.raw(), 0, permits) };
        assert_eq!(result, 0, "permits beyond SEM_VALUE_MAX");
        semaphore
    }

    #[inline]
    fn acquire(&self) {
        // SAFETY: initialised. The call fails only if a signal handler interrupted it.
        while unsafe { libc::sem_wait(self.raw()) } != 0 {}
    }

    fn try_acquire(&self) -> bool {
        // SAFETY: initialised.
        unsafe { libc::sem_trywait(self.raw()) == 0 }
    }

    fn acquire_within(&self, timeout: Duration) -> bool {
        // The timeout counts on the realtime clock, the only clock that this call knows.
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

impl Drop for PosixSemaphore {
    fn drop(&mut self) {
        // SAFETY: initialised, and there are no waiters, as each of them borrows the semaphore.
        unsafe { libc::sem_destroy(self.raw()) };
    }
}
