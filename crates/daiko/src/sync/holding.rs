//! What a guard remembers of the moment at which its lock was taken.

use daiko_rt::deadlock;
use daiko_rt::fiber::panicking;
use daiko_rt::process::Call;

/// Mostly nothing, so that one look is enough.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Holding(u8);

/// Its holder was panicking before: then it is not the lock's fault.
const WAS_PANICKING: u8 = 1;
/// It is noted who holds the lock.
const NOTED: u8 = 2;
/// The lock is in the holder's estate.
const IN_ESTATE: u8 = 4;

impl Holding {
    /// Of the caller, who has just taken the lock at this address, and has it alone.
    #[inline]
    #[track_caller]
    pub(super) fn of_caller(lock: usize) -> Self {
        let noted = if deadlock::taken(lock) { NOTED } else { 0 };
        Holding(noted | if panicking() { WAS_PANICKING } else { 0 })
    }

    /// Of who does not panic, of a lock that is in its estate.
    pub(super) const IN_ESTATE: Self = Holding(IN_ESTATE);

    /// The same of a lock that is in the caller's estate, if the call is a fiber's.
    pub(super) fn in_estate(self, call: &Call) -> Self {
        Holding(self.0 | if call.has_estate() { IN_ESTATE } else { 0 })
    }

    /// Whether there is nothing to remember.
    #[inline]
    pub(super) fn is_plain(self) -> bool {
        self.0 == 0
    }

    /// Whether the lock is in the holder's estate.
    #[inline]
    pub(super) fn is_in_estate(self) -> bool {
        self.0 & IN_ESTATE != 0
    }

    /// Ends it, before the lock is freed; whether the holder is panicking for a reason that came up
    /// meanwhile, so that the lock is poisoned.
    #[inline]
    #[must_use]
    pub(super) fn ends_in_panic(self, lock: usize) -> bool {
        if self.0 == 0 { panicking() } else { self.ends_in_panic_slow(lock) }
    }

    #[cold]
    #[inline(never)]
    fn ends_in_panic_slow(self, lock: usize) -> bool {
        self.strike_out(lock);
        self.0 & WAS_PANICKING == 0 && panicking()
    }

    /// Ends it, as [`ends_in_panic`](Self::ends_in_panic), where nobody panics.
    pub(super) fn strike_out(self, lock: usize) {
        if self.0 & NOTED != 0 {
            deadlock::freed(lock);
        }
    }
}
