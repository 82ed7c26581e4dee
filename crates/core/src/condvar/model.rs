//! Waiters for items, a thread that gives items, and a waiter that leaves.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::modelled::{self, bounded, spawn};
use crate::mutex::Arrival;

type Waiters = modelled::Waiters<3>;

struct Shared {
    mutex: RawMutex<usize>,
    condvar: RawCondvar<usize>,
    waiters: Waiters,
    /// True if the waiters are on the notifier's worker and run once it suspends.
    here: bool,
    /// Number of items. Guarded by the lock.
    there: UnsafeCell<u32>,
}

// SAFETY: the models check that only the holder of the lock touches the items.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

#[derive(Clone, Copy)]
enum Leaves {
    TimedOut,
    Cancelled,
}

impl Shared {
    fn new(here: bool) -> Arc<Self> {
        Arc::new(Self {
            mutex: RawMutex::new(),
            condvar: RawCondvar::new(),
            waiters: Waiters::new(),
            here,
            there: UnsafeCell::new(0),
        })
    }

    fn lock(&self, actor: usize) {
        self.waiters.lock(&self.mutex, actor, Arrival::Woken);
    }

    fn unlock(&self, actor: usize) {
        if !self.mutex.release_fast() {
            self.waiters.wake(self.mutex.release(&Waiters::by(actor)));
        }
    }

    /// Changes the items, for the holder of the lock.
    fn change<R>(&self, change: impl FnOnce(&mut u32) -> R) -> R {
        // SAFETY: the lock is held.
        self.there.with_mut(|there| change(unsafe { &mut *there }))
    }

    fn begin(&self, actor: usize, node: &Node<usize>) {
        self.begin_before(actor, node, None);
    }

    /// Begins as `begin` does, and hands the mutex off to the waiter of `next`.
    fn begin_before(&self, actor: usize, node: &Node<usize>, next: Option<&Node<usize>>) {
        let (by, node) = (Waiters::by(actor), NonNull::from(node));
        // SAFETY: the node is in no queue, and stays until it has left or is claimed. The waiter of
        // `next` is claimed, and its note read on this thread.
        let first = unsafe {
            self.condvar.wait(&by, &self.mutex, node, next.map(NonNull::from), |_| false)
        };
        self.waiters.wake(first.unwrap());
    }

    /// Goes on, notified, to add one.
    fn go_on(&self, actor: usize, node: &Node<usize>) {
        let note = self.waiters.wait(actor, node);
        self.waiters.lock_again(&self.mutex, actor, node, note);
        self.change(|there| *there += 1);
    }

    fn take(&self, actor: usize) {
        self.lock(actor);
        while self.change(|there| *there == 0) {
            let node = Node::new(actor);
            self.begin(actor, &node);
            let note = self.waiters.wait(actor, &node);
            self.waiters.lock_again(&self.mutex, actor, &node, note);
        }
        self.change(|there| *there -= 1);
        self.unlock(actor);
    }

    /// Adds `amount` items, and notifies `most` waiters: before or after the lock is freed.
    fn give(&self, actor: usize, amount: u32, most: usize, before: bool) {
        self.lock(actor);
        self.change(|there| *there += amount);
        if before {
            self.notify(actor, most);
        }
        self.unlock(actor);
        if !before {
            self.notify(actor, most);
        }
    }

    fn notify(&self, actor: usize, most: usize) {
        if !self.condvar.is_empty() {
            let by = Waiters::by(actor);
            self.waiters.wake(match most {
                1 => self.condvar.notify_one(&by, |_, _, _| self.here, |_, _| ()),
                _ => self.condvar.notify(&by, most, |_, _| ()),
            });
        }
    }

    /// Waits in front of other waiters, and leaves without an item.
    fn ask(&self, actor: usize, node: &Node<usize>, leaves: Leaves) {
        let by = Waiters::by(actor);
        // SAFETY: alive, and it waits for this condition.
        if unsafe { self.condvar.leave(&by, NonNull::from(node)) } == Unlinked::Mine {
            return;
        }
        let note = self.waiters.wait(actor, node);
        match leaves {
            Leaves::Cancelled => {
                let next = self.condvar.give_way(&by, &self.mutex, note);
                self.waiters.wake(next.into_iter().flatten());
            }
            Leaves::TimedOut => {
                self.waiters.lock_again(&self.mutex, actor, node, note);
                self.unlock(actor);
                self.notify(actor, 1);
            }
        }
    }
}

/// Cases `(before, here)`: the notifier notifies before it unlocks; the waiters are on the
/// notifier's worker and run once it suspends.
const CASES: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn a_waiter_sees_the_change_or_is_notified() {
    for (before, here) in CASES {
        loom::model(move || {
            let shared = Shared::new(here);
            let gives = spawn(&shared, move |shared| shared.give(1, 1, 1, before));
            shared.take(0);
            gives.join().unwrap();
            assert!(shared.condvar.is_empty());
            assert_eq!(shared.change(|there| *there), 0);
        });
    }
}

#[test]
fn a_leaving_waiter_takes_no_notification_along() {
    for leaves in [Leaves::TimedOut, Leaves::Cancelled] {
        for (before, here) in CASES {
            bounded(3, move || {
                let shared = Shared::new(here);
                let node = Node::new(0);
                shared.lock(0);
                shared.begin(0, &node);
                let takes = spawn(&shared, |shared| shared.take(1));
                let gives = spawn(&shared, move |shared| shared.give(2, 1, 1, before));
                shared.ask(0, &node, leaves);
                takes.join().unwrap();
                gives.join().unwrap();
                assert_eq!(shared.change(|there| *there), 0);
            });
        }
    }
}

#[test]
fn all_go_on_one_after_the_other() {
    for before in [false, true] {
        bounded(3, move || {
            let shared = Shared::new(false);
            let takes = [1, 2].map(|actor| spawn(&shared, move |shared| shared.take(actor)));
            shared.give(0, 2, usize::MAX, before);
            takes.into_iter().for_each(|takes| takes.join().unwrap());
            assert_eq!(shared.change(|there| *there), 0);
            assert!(shared.mutex.try_acquire(), "nothing is left behind");
        });
    }
}

#[test]
fn a_waiter_that_is_handed_the_lock_holds_it_alone() {
    loom::model(|| {
        let shared = Shared::new(true);
        // Two fibers of one worker.
        let nodes = [Node::new(0), Node::new(1)];
        shared.lock(1);
        shared.begin(1, &nodes[1]);
        let adds = spawn(&shared, |shared| {
            shared.lock(2);
            shared.change(|there| *there += 1);
            shared.unlock(2);
        });
        shared.lock(0);
        shared.notify(0, 1);
        shared.begin_before(0, &nodes[0], Some(&nodes[1]));
        shared.go_on(1, &nodes[1]);
        shared.notify(1, 1);
        shared.unlock(1);
        shared.go_on(0, &nodes[0]);
        shared.unlock(0);
        adds.join().unwrap();
        assert_eq!(shared.change(|there| *there), 3);
        assert!(shared.mutex.try_acquire(), "nothing is left behind");
    });
}
