//! `condvar`: a POSIX mutex and condition variable per thread.

use super::harness::{Gate, Turn};
use crate::kit::pthread::{self, PthreadMutex};

/// A gate by mutex and condition variable. The condition is the turn itself.
#[derive(Default)]
pub(super) struct TurnCondvar {
    mutex: PthreadMutex<()>,
    changed: pthread::PthreadCondvar,
}

impl Gate for TurnCondvar {
    fn wait(&self, turn: &Turn<'_>) {
        let mut held = self.mutex.lock();
        while !turn.has_come() {
            // SAFETY: this condition variable is only waited for here, with the mutex beside it.
            held = unsafe { self.changed.wait(held) };
        }
    }

    /// The buffer was written outside the lock. Acquiring the lock afterwards excludes that the
    /// owner has checked the buffer but does not wait yet. Signalling outside the lock avoids
    /// waking the owner into a locked mutex.
    fn wake(&self) {
        drop(self.mutex.lock());
        self.changed.notify_one();
    }
}
