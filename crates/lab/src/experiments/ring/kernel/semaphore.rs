//! `semaphore`: a POSIX semaphore per thread.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use super::harness::{Gate, Turn};

/// A semaphore that counts the data not yet taken.
pub(super) struct DatumSemaphore {
    /// Initialised by `attach`: a semaphore must not move afterwards.
    semaphore: UnsafeCell<MaybeUninit<libc::sem_t>>,
    attached: AtomicBool,
}

// SAFETY: only `attach` writes without the semaphore's own synchronisation, and no thread uses the
// semaphore before its owner has attached.
unsafe impl Sync for DatumSemaphore {}

impl DatumSemaphore {
    fn get(&self) -> *mut libc::sem_t {
        self.semaphore.get().cast()
    }
}

impl Default for DatumSemaphore {
    fn default() -> Self {
        let semaphore = UnsafeCell::new(MaybeUninit::uninit());
        Self { semaphore, attached: AtomicBool::new(false) }
    }
}

impl Gate for DatumSemaphore {
    fn attach(&self) {
        // SAFETY: valid for writes; called once, before any other use.
        unsafe { libc::sem_init(self.get(), 0, 0) };
        // Relaxed: read by `drop` only, after all threads were joined.
        self.attached.store(true, Ordering::Relaxed);
    }

    fn wait(&self, _: &Turn<'_>) {
        // SAFETY: initialised by `attach`. The call fails only if a signal handler interrupted it.
        while unsafe { libc::sem_wait(self.get()) } != 0 {}
    }

    fn wake(&self) {
        // SAFETY: initialised by `attach`.
        unsafe { libc::sem_post(self.get()) };
    }
}

impl Drop for DatumSemaphore {
    fn drop(&mut self) {
        if *self.attached.get_mut() {
            // SAFETY: initialised, and there are no waiters: all threads were joined.
            unsafe { libc::sem_destroy(self.get()) };
        }
    }
}
