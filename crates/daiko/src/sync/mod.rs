//! Locks and what else fibers and threads share, named and shaped as in [`std::sync`].
//!
//! All of it works between fibers, between threads that are no workers, and between both: a fiber
//! suspends, any other thread blocks.

mod barrier;
pub mod channel;
mod condvar;
mod event;
mod holding;
mod lazy_lock;
pub(crate) mod mutex;
mod once;
mod once_lock;
pub(crate) mod permits;
mod poison;
pub(crate) mod rwlock;
mod semaphore;
mod wait_group;

use std::fmt;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use event::Event;
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::{OnceLock, SetTimeoutError};
pub use poison::{LockResult, PoisonError, TimedLockError, TryLockError};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use wait_group::WaitGroup;

/// The time of a wait was over before what was waited for came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time of the wait is over")
    }
}

impl std::error::Error for TimedOut {}
