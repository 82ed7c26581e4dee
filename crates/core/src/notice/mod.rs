//! Wakes by the wakers of futures: of a fiber or thread that polls a future, and of a future that
//! waits for one of our own objects.
//!
//! README.md beside this file has the protocols.

mod enrollment;
mod held_waker;

pub use enrollment::{Enrolled, Enrollment};
pub use held_waker::HeldWaker;

use crate::atomic::{AtomicU64, Ordering, const_fn, unless_weakened};
use crate::fiber::WaiterId;

const QUIET: u64 = 0;
const WOKEN: u64 = 1;

/// The wakes of one future since its last poll began, and the waiter that waits for one.
///
/// | word | meaning |
/// |------|---------|
/// | 0 | not woken since the last poll began |
/// | 1 | woken |
/// | above 4 | not woken; this waiter waits |
///
/// Any thread notifies; the party that polls the future does all else. It may leave the word
/// behind: a later wake stores 1 there, and wakes no waiter.
///
/// Budget: one RMW for a wake, one for a wait, one for each poll but the first.
#[derive(Debug)]
pub struct Notice(AtomicU64);

impl Notice {
    const_fn! {
        /// Creates the word of a future that was not polled yet.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Notice(AtomicU64::new(QUIET))
        }
    }

    /// Notes a wake. Returns the waiter, if there is one: its wait is claimed.
    #[must_use = "the waiter is to be woken"]
    #[inline]
    pub fn notify(&self) -> Option<WaiterId> {
        // Release: pairs with the Acquire in `begin_poll`. Acquire: pairs with the Release in
        // `wait`, which publishes the waiter.
        match self.0.swap(WOKEN, unless_weakened!("notice-notify", Ordering::AcqRel)) {
            QUIET | WOKEN => None,
            // SAFETY: these are the bits of the id that `wait` was called with.
            waiter => Some(unsafe { WaiterId::from_bits(waiter) }),
        }
    }

    /// Begins a poll, which sees all that was written before each earlier wake.
    #[inline]
    pub fn begin_poll(&self) {
        if cfg!(weaken = "notice-begin-store") {
            // A wake between both accesses would be lost.
            self.0.load(Ordering::Acquire);
            return self.0.store(QUIET, Ordering::Relaxed);
        }
        // Acquire: pairs with the Release in `notify`. All wakes are RMWs, and so in one release
        // sequence with the last one, which this reads.
        self.0.swap(QUIET, unless_weakened!("notice-begin", Ordering::Acquire));
    }

    /// Returns true if the future was woken since its last poll began.
    #[inline]
    pub fn is_woken(&self) -> bool {
        // Relaxed: a hint; `begin_poll` acquires.
        self.0.load(Ordering::Relaxed) == WOKEN
    }

    /// Publishes that `waiter` waits for a wake. Returns false if the future was woken.
    #[must_use]
    #[inline]
    pub fn wait(&self, waiter: WaiterId) -> bool {
        // Release: pairs with the Acquire in `notify`. Relaxed on failure: `begin_poll` acquires.
        let release = unless_weakened!("notice-wait", Ordering::Release);
        self.0.compare_exchange(QUIET, waiter.bits(), release, Ordering::Relaxed).is_ok()
    }

    /// Takes back that `waiter` waits. Returns false if a wake has claimed the wait.
    #[must_use]
    pub fn leave(&self, waiter: WaiterId) -> bool {
        if cfg!(weaken = "notice-leave") {
            self.0.store(QUIET, Ordering::Relaxed);
            return true;
        }
        // Relaxed: leaving publishes nothing, and `begin_poll` acquires.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.compare_exchange(waiter.bits(), QUIET, success, failure).is_ok()
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
