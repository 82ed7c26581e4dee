//! `futex`: a private futex word per thread.

use std::sync::atomic::{AtomicU32, Ordering};

use daiko_sys::futex::{self, Scope};

use super::harness::{Gate, Turn};

/// A word that is 1 after a wake, and 0 after the wait that it ended.
#[derive(Default)]
pub(super) struct Futex(AtomicU32);

impl Gate for Futex {
    fn wait(&self, _: &Turn<'_>) {
        // Acquire: pairs with the Release in `wake`.
        while self.0.swap(0, Ordering::Acquire) == 0 {
            // The result is ignored: the word tells whether there was a wake.
            let _ = futex::wait(&self.0, 0, None, Scope::Private);
        }
    }

    fn wake(&self) {
        // Release: pairs with the Acquire in `wait`.
        self.0.store(1, Ordering::Release);
        futex::wake(&self.0, 1, Scope::Private);
    }
}
