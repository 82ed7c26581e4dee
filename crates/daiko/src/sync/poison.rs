//! Errors of locks after a panic of the holder.

use std::fmt;

pub use std::sync::{LockResult, PoisonError, TryLockError};

/// Reason why a lock was not taken in time.
pub enum TimedLockError<G> {
    /// A holder panicked; the lock was taken nevertheless.
    Poisoned(PoisonError<G>),
    /// The time is over.
    TimedOut,
}

impl<G> From<PoisonError<G>> for TimedLockError<G> {
    fn from(error: PoisonError<G>) -> Self {
        TimedLockError::Poisoned(error)
    }
}

impl<G> fmt::Display for TimedLockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimedLockError::Poisoned(error) => error.fmt(f),
            TimedLockError::TimedOut => f.write_str("the lock was not free in time"),
        }
    }
}

impl<G> fmt::Debug for TimedLockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimedLockError::Poisoned(_) => "Poisoned(..)",
            TimedLockError::TimedOut => "TimedOut",
        })
    }
}

impl<G> std::error::Error for TimedLockError<G> {}
