//! What the loom models share: threads over shared state, and a sleep until a wake.

use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Notify};
use loom::thread;

use crate::sync::Ordering;

/// Runs `run` on a thread of its own.
pub(crate) fn spawn<T: Sync + Send + 'static, R: 'static>(
    shared: &Arc<T>,
    run: impl FnOnce(&T) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

/// What a waiter sleeps on until it is woken.
pub(crate) struct Sleep {
    woken: AtomicBool,
    notify: Notify,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self { woken: AtomicBool::new(false), notify: Notify::new() }
    }

    /// Sleeps until one wake has come.
    pub(crate) fn wait(&self) {
        // Acquire pairs with the Release in `wake`.
        while !self.woken.swap(false, Ordering::Acquire) {
            self.notify.wait();
        }
    }

    pub(crate) fn wake(&self) {
        assert!(!self.woken.swap(true, Ordering::Release), "woken twice");
        self.notify.notify();
    }
}
