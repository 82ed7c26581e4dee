//! What a guard remembers of the moment at which its lock was taken.

use crate::deadlock;
use crate::fiber::panicking;

/// Mostly nothing, so that one look is enough.
pub(super) struct Holding(u8);

/// Its holder was panicking before: then it is not the lock's fault.
const WAS_PANICKING: u8 = 1;
/// It is noted who holds the lock.
const NOTED: u8 = 2;

impl Holding {
    /// Of the caller, who has just taken the lock at this address, and has it alone.
    #[inline]
    #[track_caller]
    pub(super) fn of_caller(lock: usize) -> Self {
        let noted = if deadlock::taken(lock) { NOTED } else { 0 };
        Holding(noted | if panicking() { WAS_PANICKING } else { 0 })
    }

    /// Ends it, before the lock is freed; whether the holder is panicking for a reason that came up
    /// meanwhile, so that the lock is poisoned.
    #[inline]
    #[must_use]
    pub(super) fn ends_in_panic(&self, lock: usize) -> bool {
        if self.0 == 0 { panicking() } else { self.ends_in_panic_slow(lock) }
    }

    #[cold]
    fn ends_in_panic_slow(&self, lock: usize) -> bool {
        self.strike_out(lock);
        self.0 & WAS_PANICKING == 0 && panicking()
    }

    /// Ends it, as [`ends_in_panic`](Self::ends_in_panic), where nobody panics.
    pub(super) fn strike_out(&self, lock: usize) {
        if self.0 & NOTED != 0 {
            deadlock::freed(lock);
        }
    }
}
