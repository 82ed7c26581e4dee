//! How a shutdown learns that the workers have ended.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counted up by each worker's thread as the last thing that it does with the runtime.
#[derive(Default)]
pub(crate) struct Ended {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Ended {
    pub(crate) fn tell(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits for `all` to have told, at most until `until`; whether they have.
    pub(crate) fn wait(&self, all: usize, until: Instant) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let left: Duration = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(count, left, |count| *count < all);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= all
    }
}
