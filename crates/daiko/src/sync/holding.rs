//! Record that a guard keeps of the moment at which its lock was taken.

use daiko_rt::call::Call;
use daiko_rt::deadlock;
use daiko_rt::fiber::panicking;

/// Flags of a holding; usually none, so that one comparison is enough.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Holding(u8);

/// The holder was already panicking, so that the panic does not poison the lock.
const WAS_PANICKING: u8 = 1;
/// The lock's holder is tracked.
const NOTED: u8 = 2;
/// The lock is in the holder's robust list.
const IN_ROBUST_LIST: u8 = 4;
/// The lock was not taken by the fast path, so that it is not likely to be freed by it.
const CONTENDED: u8 = 8;

impl Holding {
    /// Makes the record of the caller, which has just taken the lock at this address exclusively.
    #[inline]
    #[track_caller]
    pub(super) fn of_caller(lock: usize) -> Self {
        let noted = if deadlock::taken(lock) { NOTED } else { 0 };
        Holding(noted | Self::unnoted().0)
    }

    /// Makes the record of the caller, whose holding is not tracked.
    #[inline]
    pub(super) fn unnoted() -> Self {
        Holding(if panicking() { WAS_PANICKING } else { 0 })
    }

    /// The record of a holder that does not panic, for a contended lock.
    pub(super) const CONTENDED: Self = Holding(CONTENDED);

    /// Returns the same record for a contended lock.
    pub(super) fn contended(self) -> Self {
        Holding(self.0 | CONTENDED)
    }

    /// The record of a holder that does not panic, for a lock in its robust list.
    pub(super) const IN_ROBUST_LIST: Self = Holding(IN_ROBUST_LIST);

    /// Returns the same record for a lock that is in the caller's robust list, if the call is a
    /// fiber's.
    pub(super) fn in_robust_list(self, call: &Call) -> Self {
        Holding(self.0 | if call.has_robust_list() { IN_ROBUST_LIST } else { 0 })
    }

    /// Returns the record as a number, for a guard that is kept as one.
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// Returns the record that was this number.
    pub(super) fn from_bits(bits: u8) -> Self {
        Holding(bits)
    }

    /// Returns true if there is nothing to record.
    #[inline]
    pub(super) fn is_plain(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the lock is in the holder's robust list.
    #[inline]
    pub(super) fn is_in_robust_list(self) -> bool {
        self.0 & IN_ROBUST_LIST != 0
    }

    /// Ends the record before the lock is freed. Returns true if the holder started to panic
    /// meanwhile, so that the lock is to be poisoned.
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

    /// Ends the record as [`ends_in_panic`](Self::ends_in_panic) does, for a holder that does not
    /// panic.
    pub(super) fn strike_out(self, lock: usize) {
        if self.0 & NOTED != 0 {
            deadlock::freed(lock);
        }
    }
}
