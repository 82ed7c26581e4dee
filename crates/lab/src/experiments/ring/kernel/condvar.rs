//! `condvar`: a POSIX mutex and condition variable per thread.

use super::harness::{Gate, Turn};
use crate::kit::pthread::{self, Mutex};

/// The condition is the turn itself.
#[derive(Default)]
pub(super) struct Condvar {
    mutex: Mutex<()>,
    changed: pthread::Condvar,
}

impl Gate for Condvar {
    fn wait(&self, turn: &Turn<'_>) {
        let mut held = self.mutex.lock();
        while !turn.has_come() {
            // SAFETY: this condition variable is waited for here only, with the mutex beside it.
            held = unsafe { self.changed.wait(held) };
        }
    }

    /// The buffer was written outside the lock. Passing through the lock
    /// afterwards rules out that the owner has looked at it but does not wait
    /// yet; signalling outside does not wake it into a locked mutex.
    fn wake(&self) {
        drop(self.mutex.lock());
        self.changed.notify_one();
    }
}
