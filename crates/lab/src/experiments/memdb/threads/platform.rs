//! The primitives that the log of the examples waits by: those of `std`.

use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

pub(crate) use std::fs::{self, File};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

pub(crate) use self::RewriteEvent as Event;

/// A condition that is set. No log waits for one here, as none is rewritten.
#[derive(Default)]
pub(crate) struct RewriteEvent {
    is_set: Mutex<bool>,
    changed: Condvar,
}

#[allow(dead_code, reason = "no log is rewritten")]
impl RewriteEvent {
    pub(crate) fn auto() -> RewriteEvent {
        RewriteEvent::default()
    }

    pub(crate) fn set(&self) {
        *self.state() = true;
        self.changed.notify_one();
    }

    pub(crate) fn reset(&self) {
        *self.state() = false;
    }

    pub(crate) fn wait(&self) {
        let waiting = self.changed.wait_while(self.state(), |is_set| !*is_set);
        *waiting.unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn state(&self) -> MutexGuard<'_, bool> {
        self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a part of a session on the thread's stack: a thread has no other.
pub(crate) fn on_warm_stack<R>(part: impl FnOnce() -> R) -> R {
    part()
}

/// Lets other threads run.
pub(crate) fn let_run() {
    thread::yield_now();
}

#[allow(dead_code, reason = "no log is synchronised each second")]
pub(crate) fn sleep(time: Duration) {
    thread::sleep(time);
}
