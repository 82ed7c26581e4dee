//! Threads that want the lock, and a thread that leaves the queue.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::lock::testing::Tester;
use crate::modelled::{Waiters, bounded, spawn};

struct Shared {
    mutex: RawMutex<usize>,
    waiters: Waiters<3>,
    data: UnsafeCell<u32>,
}

// SAFETY: the model checks that only the holder of the lock touches the data.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { mutex: RawMutex::new(), waiters: Waiters::new(), data: UnsafeCell::new(0) })
    }

    fn lock(&self, actor: usize, again: Arrival) {
        if let Err(seen) = self.mutex.acquire_fast()
            && !self.mutex.try_acquire_seen(seen)
        {
            self.waiters.lock(&self.mutex, actor, again);
        }
    }

    fn unlock(&self, actor: usize) {
        if !self.mutex.release_fast() {
            // Hands the lock to waiter 2 if it is first.
            let by = Tester(actor as u32 + 1);
            self.waiters.wake(self.mutex.release_and_leave(&by, |waiter| waiter == 2));
        }
    }

    fn add(&self, actor: usize, again: Arrival) {
        self.lock(actor, again);
        // SAFETY: the lock is held.
        self.data.with_mut(|data| unsafe { *data += 1 });
        self.unlock(actor);
    }

    /// Asks for the lock, and leaves without it if it has to wait.
    fn ask(&self, actor: usize) {
        let (by, node) = (Tester(actor as u32 + 1), Node::new(actor));
        // SAFETY: the node is in no queue, and stays until it has left or is claimed.
        if unsafe { self.mutex.acquire(&by, NonNull::from(&node), Arrival::New) }
            == Acquire::Acquired
        {
            return self.unlock(actor);
        }
        // SAFETY: alive, and queued here.
        if unsafe { self.mutex.leave(&by, NonNull::from(&node)) } == Unlinked::AlreadyGone {
            let note = self.waiters.wait(actor, &node);
            self.waiters.wake(self.mutex.give_way(&by, note));
        }
    }

    fn total(&self) -> u32 {
        // SAFETY: all other threads have ended.
        self.data.with(|data| unsafe { *data })
    }
}

#[test]
fn one_at_a_time_and_all_of_them() {
    bounded(3, || {
        let shared = Shared::new();
        let others =
            [1, 2].map(|actor| spawn(&shared, move |shared| shared.add(actor, Arrival::Woken)));
        shared.add(0, Arrival::Woken);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.total(), 3);
    });
}

#[test]
fn barging_ends_after_a_while() {
    for again in [Arrival::Woken, Arrival::Late] {
        loom::model(move || {
            let shared = Shared::new();
            let other = spawn(&shared, move |shared| shared.add(1, again));
            (0..3).for_each(|_| shared.add(0, again));
            other.join().unwrap();
            assert_eq!(shared.total(), 4);
        });
    }
}

#[test]
fn a_leaving_waiter_takes_no_wake_along() {
    bounded(3, || {
        let shared = Shared::new();
        let adds = spawn(&shared, |shared| shared.add(1, Arrival::Woken));
        let asks = spawn(&shared, |shared| shared.ask(2));
        shared.add(0, Arrival::Woken);
        adds.join().unwrap();
        asks.join().unwrap();
        assert_eq!(shared.total(), 2);
    });
}
