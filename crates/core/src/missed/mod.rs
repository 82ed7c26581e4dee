//! The signals that waiters miss while handlers run in the midst of their waits.
//!
//! README.md beside this file has the steps and the proof. The queue is the caller's.

use crate::atomic::{AtomicBool, AtomicU32, Ordering, const_fn, fence};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The signals of a condition that waiters may miss: an interrupt takes a waiter out of the queue,
/// and the wait goes on later.
///
/// All zeros: no interrupt has come. Budget of a signal without interrupts: a load. Of a wait: a
/// load.
#[repr(C)]
#[derive(Debug)]
pub struct MissedSignals {
    mark: InterruptMark,
    /// Number of signals, modulo its size, since the mark was set.
    signals: AtomicU32,
}

/// True once an interrupt has come for any waiter of a queue. Never cleared.
#[repr(transparent)]
#[derive(Debug)]
pub struct InterruptMark(AtomicBool);

/// The question of a waiter that is in the queue again.
#[must_use]
#[derive(Debug)]
pub struct Missing<'m> {
    missed: &'m MissedSignals,
    /// The number of signals before the wait.
    seen: u32,
    /// The answer before the waiter was in the queue.
    early: Option<bool>,
}

impl InterruptMark {
    /// Calls `unlink`, which takes a waiter out of the queue for an interrupt.
    pub fn set_before<R>(&self, unlink: impl FnOnce() -> R) -> R {
        // Relaxed: the change of the queue publishes it.
        let set = || self.0.store(true, Ordering::Relaxed);
        if cfg!(weaken = "missed-mark") {
            let result = unlink();
            set();
            return result;
        }
        set();
        unlink()
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Missing<'_> {
    /// Returns true if the waiter has missed no signal, as far as signals did not find it in the
    /// queue. The waiter has passed a sequentially consistent fence behind its entry.
    pub fn none(&self) -> bool {
        self.early.unwrap_or_else(|| self.missed.signals.load(Ordering::Relaxed) == self.seen)
    }
}

impl MissedSignals {
    const_fn! {
        /// The signals of a queue that no interrupt has come to.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            MissedSignals { mark: InterruptMark(AtomicBool::new(false)), signals: AtomicU32::new(0) }
        }
    }

    /// Returns the mark, for interrupts of waits.
    pub fn mark(&self) -> &InterruptMark {
        &self.mark
    }

    /// Waits: by `first`, then by `again` for as long as the wait `goes_on`, as an interrupt has
    /// ended it. Both enter the queue; `again` waits only if there are [none](Missing::none).
    #[inline]
    pub fn wait<End>(
        &self,
        first: impl FnOnce() -> End,
        goes_on: impl Fn(&End) -> bool,
        again: impl Fn(Missing<'_>) -> End,
    ) -> End {
        // Relaxed: signals that matter find this waiter in the queue, or the mark.
        let note = || self.signals.load(Ordering::Relaxed);
        let mut seen = note();
        let mut end = first();
        if cfg!(weaken = "missed-note") {
            seen = note();
        }
        // Without a mark no interrupt has taken the waiter out.
        while goes_on(&end) && self.mark.is_set() {
            let mut missing = Missing { missed: self, seen, early: None };
            if cfg!(weaken = "missed-look") {
                missing.early = Some(missing.none());
            }
            end = again(missing);
        }
        end
    }

    /// Signals one waiter. `wake` passes a sequentially consistent fence, claims a waiter if there
    /// is one, and wakes it; it returns true then.
    #[inline]
    pub fn signal_one(&self, wake: impl Fn() -> bool) {
        if !wake() {
            self.signal_missed(wake);
        }
    }

    /// Signals all waiters. `wake` does as in [`signal_one`](Self::signal_one), for all of them.
    #[inline]
    pub fn signal_all(&self, wake: impl Fn() -> bool) {
        wake();
        self.signal_missed(wake);
    }

    /// Lets waiters know of a signal that an interrupt has taken out of the queue.
    #[inline]
    fn signal_missed(&self, wake: impl Fn() -> bool) {
        if !cfg!(weaken = "missed-signal") {
            // Pairs with the Release by which an interrupt changes the queue, behind the mark.
            fence(Ordering::Acquire);
        }
        if self.mark.is_set() {
            if cfg!(weaken = "missed-count") {
                wake();
            }
            // Relaxed: the fence of `wake` orders it before the look at the queue.
            self.signals.fetch_add(1, Ordering::Relaxed);
            if !cfg!(any(weaken = "missed-claim", weaken = "missed-count")) {
                wake();
            }
        }
    }
}
