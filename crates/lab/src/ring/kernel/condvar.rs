//! `condvar`: a POSIX mutex and condition variable per thread.

use std::{cell::UnsafeCell, io};

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

use super::harness::{Gate, Turn};

/// The condition is the turn itself.
pub(super) struct Condvar {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    changed: UnsafeCell<libc::pthread_cond_t>,
}

// SAFETY: both are used through their own functions only, which synchronise.
unsafe impl Sync for Condvar {}

impl Gate for Condvar {
    const NAME: &'static str = "condvar";

    fn open(threads: usize) -> io::Result<Vec<Self>> {
        let gate = |_| Self {
            mutex: UnsafeCell::new(PTHREAD_MUTEX_INITIALIZER),
            changed: UnsafeCell::new(PTHREAD_COND_INITIALIZER),
        };
        Ok((0..threads).map(gate).collect())
    }

    fn wait(&self, turn: &Turn<'_>) {
        // SAFETY: initialised, and not moved since its first use; the waiting
        // thread holds the mutex, and unlocks what it has locked.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            while !turn.has_come() {
                libc::pthread_cond_wait(self.changed.get(), self.mutex.get());
            }
            libc::pthread_mutex_unlock(self.mutex.get());
        }
    }

    /// The buffer was written outside the lock. Passing through the lock
    /// afterwards rules out that the owner has looked at it but does not wait
    /// yet; signalling outside does not wake it into a locked mutex.
    fn wake(&self) {
        // SAFETY: as in `wait`.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            libc::pthread_mutex_unlock(self.mutex.get());
            libc::pthread_cond_signal(self.changed.get());
        }
    }
}

impl Drop for Condvar {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody waits or holds: all were joined.
        unsafe {
            libc::pthread_cond_destroy(self.changed.get());
            libc::pthread_mutex_destroy(self.mutex.get());
        }
    }
}
