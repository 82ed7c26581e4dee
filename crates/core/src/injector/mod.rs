//! Fibers that any worker may take: an unbounded queue, first in first out.
//!
//! It is intrusive, so it needs no memory. It has a lock, since it is the path of overflow and of
//! threads that are no workers: a worker comes here once for many fibers.

use crate::atomic::{AtomicUsize, Ordering, UnsafeCell, const_fn};
use crate::list::{Chain, Linked};
use crate::lock::{Contender, QueueLock};
use std::ptr::NonNull;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The queue.
pub struct Injector<T: Linked> {
    lock: QueueLock,
    /// Number of queued fibers. Stored under the lock, loaded by any thread.
    len: AtomicUsize,
    /// Touched under the lock only.
    fibers: UnsafeCell<Chain<T>>,
}

// SAFETY: the chain is touched under the lock only; the pointers in it are handed from pusher to
// taker; the users of `T` answer for the accesses to a `T` behind them.
unsafe impl<T: Linked> Send for Injector<T> {}
// SAFETY: as for Send.
unsafe impl<T: Linked> Sync for Injector<T> {}

impl<T: Linked> Injector<T> {
    const_fn! {
        /// Creates an empty queue.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self {
                lock: QueueLock::new(),
                len: AtomicUsize::new(0),
                fibers: UnsafeCell::new(Chain::new()),
            }
        }
    }

    /// Appends a fiber.
    ///
    /// # Safety
    ///
    /// `fiber` is in no list, and stays valid while it is queued here.
    pub unsafe fn push(&self, by: &impl Contender, fiber: NonNull<T>) {
        // SAFETY: passed on to the caller.
        self.under_lock(by, |fibers| unsafe { fibers.push(fiber) });
    }

    /// Appends all fibers of a chain.
    ///
    /// The contract under which they were pushed to the chain goes on: they stay valid.
    pub fn push_chain(&self, by: &impl Contender, chain: Chain<T>) {
        self.under_lock(by, |fibers| fibers.append(chain));
    }

    /// Takes the oldest fiber.
    pub fn pop(&self, by: &impl Contender) -> Option<NonNull<T>> {
        if self.is_empty() {
            return None;
        }
        self.under_lock(by, Chain::pop)
    }

    /// Takes the oldest `max` fibers, or all if there are fewer.
    pub fn pop_batch(&self, by: &impl Contender, max: usize) -> Chain<T> {
        let mut batch = Chain::new();
        if self.is_empty() {
            return batch;
        }
        self.under_lock(by, |fibers| {
            for fiber in fibers.take(max) {
                // SAFETY: it has left the queue, in which it was valid, and is in no list.
                unsafe { batch.push(fiber) };
            }
        });
        batch
    }

    /// Returns the number of fibers that were queued a moment ago.
    pub fn len(&self) -> usize {
        // Relaxed: a hint. A worker that is about to sleep on it passes a barrier first (module
        // `idle`).
        self.len.load(Ordering::Relaxed)
    }

    /// Returns true if no fiber was queued a moment ago.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn under_lock<R>(&self, by: &impl Contender, change: impl FnOnce(&mut Chain<T>) -> R) -> R {
        let held = self.lock.lock(by);
        let (result, len) = self.fibers.with_mut(|fibers| {
            // SAFETY: the lock is held, so this is the only reference.
            let fibers = unsafe { &mut *fibers };
            (change(fibers), fibers.len())
        });
        if cfg!(weaken = "injector-len") {
            drop(held);
            self.len.store(len, Ordering::Relaxed);
            return result;
        }
        // Under the lock, so that lengths are stored in the order in which they were true.
        self.len.store(len, Ordering::Relaxed);
        drop(held);
        result
    }
}
