//! Reports of a lock about a holder that died or panicked.

use std::fmt;

use crate::Segment;
use daiko_core::robust::FoundData;

/// Reason why the value of a lock may not be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The last holder was killed, or ended, while it held the lock. One later holder is told of
    /// each death: it is to repair the value.
    OwnerDied,
    /// A holder panicked, or died and the holder that was told of it has not repaired the value.
    Poisoned,
    /// The segment's file was cut short: the value is lost.
    Truncated,
}

impl Cause {
    /// Makes the cause for a lock that was found so, in a segment that may have been cut short.
    pub(super) fn of(found: FoundData, truncated: bool) -> Option<Cause> {
        match found {
            _ if truncated => Some(Cause::Truncated),
            FoundData::Clean => None,
            FoundData::OwnerDied => Some(Cause::OwnerDied),
            FoundData::Poisoned => Some(Cause::Poisoned),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::OwnerDied => {
                "the process that had the lock died; put the value in order, and call clear_poison"
            }
            Cause::Poisoned => {
                "a holder of the lock panicked or died, and the value is not repaired yet; put it in order, and call \
                 clear_poison"
            }
            Cause::Truncated => {
                "the segment's file was cut short; end all its users, remove it and create it anew"
            }
        })
    }
}

/// Error of a lock that was taken while its value may be inconsistent. It has the guard, and the
/// [`Cause`].
pub struct PoisonError<G> {
    guard: G,
    cause: Cause,
}

/// Result of a lock, as in [`std::sync`]: a guard, or a guard in an error.
pub type LockResult<G> = Result<G, PoisonError<G>>;

impl<G> PoisonError<G> {
    pub(super) fn new(guard: G, cause: Cause) -> Self {
        PoisonError { guard, cause }
    }

    /// Returns the cause.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the guard.
    pub fn into_inner(self) -> G {
        self.guard
    }

    /// Returns a reference to the guard.
    pub fn get_ref(&self) -> &G {
        &self.guard
    }

    /// Returns a mutable reference to the guard.
    pub fn get_mut(&mut self) -> &mut G {
        &mut self.guard
    }
}

impl<G> fmt::Display for PoisonError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl<G> fmt::Debug for PoisonError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoisonError").field("cause", &self.cause).finish_non_exhaustive()
    }
}

impl<G> std::error::Error for PoisonError<G> {}

/// Reason why a lock was not taken at once, or in time, or is poisoned.
pub enum TryLockError<G> {
    /// The lock was taken nevertheless.
    Poisoned(PoisonError<G>),
    /// Another holder has it.
    WouldBlock,
}

/// Reason why a lock was not taken in time, or is poisoned.
pub enum TimedLockError<G> {
    /// The lock was taken nevertheless.
    Poisoned(PoisonError<G>),
    /// The time is over.
    TimedOut,
}

impl<G> From<PoisonError<G>> for TryLockError<G> {
    fn from(error: PoisonError<G>) -> Self {
        TryLockError::Poisoned(error)
    }
}

impl<G> From<PoisonError<G>> for TimedLockError<G> {
    fn from(error: PoisonError<G>) -> Self {
        TimedLockError::Poisoned(error)
    }
}

impl<G> fmt::Display for TryLockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryLockError::Poisoned(error) => error.fmt(f),
            TryLockError::WouldBlock => f.write_str("the lock is held; try again, or wait for it"),
        }
    }
}

impl<G> fmt::Debug for TryLockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryLockError::Poisoned(error) => f.debug_tuple("Poisoned").field(error).finish(),
            TryLockError::WouldBlock => f.write_str("WouldBlock"),
        }
    }
}

impl<G> std::error::Error for TryLockError<G> {}

impl<G> fmt::Display for TimedLockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimedLockError::Poisoned(error) => error.fmt(f),
            TimedLockError::TimedOut => f.write_str(
                "the lock was not free in time; its holder may be stopped, or waits itself",
            ),
        }
    }
}

impl<G> fmt::Debug for TimedLockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimedLockError::Poisoned(error) => f.debug_tuple("Poisoned").field(error).finish(),
            TimedLockError::TimedOut => f.write_str("TimedOut"),
        }
    }
}

impl<G> std::error::Error for TimedLockError<G> {}

/// Makes the result of a lock from its `guard` and the state in which it was `found`.
pub(super) fn mark_found<G>(guard: G, found: FoundData, segment: &Segment) -> LockResult<G> {
    match Cause::of(found, segment.is_truncated()) {
        None => Ok(guard),
        Some(cause) => Err(PoisonError { guard, cause }),
    }
}

/// Converts the result of a wait without a deadline.
pub(super) fn for_ever<G>(result: Result<G, TimedLockError<G>>) -> LockResult<G> {
    match result {
        Ok(guard) => Ok(guard),
        Err(TimedLockError::Poisoned(error)) => Err(error),
        Err(TimedLockError::TimedOut) => unreachable!("it waits for ever"),
    }
}
