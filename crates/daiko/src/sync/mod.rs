//! Locks and what else fibers and threads share, named and shaped as in [`std::sync`].
//!
//! All of it works between fibers, between threads that are no workers, and between both: a fiber
//! suspends, any other thread blocks.
//!
//! # Deadlocks
//!
//! [`RuntimeBuilder::on_deadlock`](crate::RuntimeBuilder::on_deadlock) reports fibers that wait for each other:
//!
//! ```
//! use daiko::sync::{Barrier, Mutex};
//! use daiko::{Builder, Runtime};
//! use std::sync::{Arc, mpsc};
//!
//! let (tell, told) = mpsc::channel();
//! let hook = move |deadlock: &daiko::Deadlock| _ = tell.send(deadlock.clone());
//! let runtime = Runtime::builder().workers(1).on_deadlock(hook).build().unwrap();
//! let (a, b) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
//! let both = Arc::new(Barrier::new(2));
//! let ways = [("there", a.clone(), b.clone()), ("back", b, a)];
//! let fibers = ways.map(|(name, first, second)| {
//!     let both = both.clone();
//!     let body = move || {
//!         let first = first.lock().unwrap();
//!         both.wait();
//!         *first + *second.lock().unwrap()
//!     };
//!     runtime.spawn_with(Builder::new().name(name).on(0), body).unwrap()
//! });
//! let deadlock = told.recv().unwrap();
//! assert_eq!(deadlock.cycles.len(), 1);
//! for fiber in &deadlock.fibers {
//!     let holder = fiber.waits_for.held_by.as_ref().unwrap();
//!     assert_eq!(fiber.waits_for.kind, "Mutex");
//!     assert_ne!(fiber.name, holder.name);
//! }
//! // Cancelled, they free their locks.
//! fibers[0].cancel();
//! let [there, back] = fibers;
//! assert!(there.join().is_err());
//! assert_eq!(back.join().unwrap(), 3);
//! ```

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
