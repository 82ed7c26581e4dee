//! Producers and consumers over a mutex and two conditions, and threads that only come to leave
//! again.

use std::collections::VecDeque;

use shuttle::sync::Arc;

use super::*;
use crate::atomic::UnsafeCell;
use crate::condvar::RawCondvar;
use crate::modelled::spawn;
use crate::mutex::{Arrival, RawMutex};

/// Largest number of producers, and of consumers.
const PAIRS: usize = 2;
const PASSERS_BY: usize = 3;
const ALL: usize = 2 * PAIRS + PASSERS_BY;
/// Number of items that each producer makes, and each consumer takes.
const ITEMS: usize = 4;

/// An item: its producer, and its number there.
type Item = (usize, usize);

struct Shared {
    mutex: RawMutex<usize>,
    filled: RawCondvar<usize>,
    emptied: RawCondvar<usize>,
    waiters: Waiters<ALL>,
    room: Room,
    items: UnsafeCell<VecDeque<Item>>,
    /// True if producers and consumers have no deadline, one is notified at a time, and there is
    /// room for one item: nothing makes up for a lost notification.
    strict: bool,
    capacity: usize,
}

// SAFETY: the scenario checks that only the holder of the lock touches the items.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        let strict = below(2) == 0;
        Arc::new(Self {
            mutex: RawMutex::new(),
            filled: RawCondvar::new(),
            emptied: RawCondvar::new(),
            waiters: Waiters::new(),
            room: Room::new(1),
            items: UnsafeCell::new(VecDeque::new()),
            strict,
            capacity: if strict { 1 } else { 2 },
        })
    }

    fn lock(&self, actor: usize) {
        self.waiters.lock(&self.mutex, actor, [Arrival::Woken, Arrival::Late][below(2)]);
    }

    fn unlock(&self, actor: usize) {
        if !self.mutex.release_fast() {
            self.waiters.wake(self.mutex.release(&Waiters::<ALL>::by(actor)));
        }
    }

    fn items<R>(&self, look: impl FnOnce(&mut VecDeque<Item>) -> R) -> R {
        // SAFETY: the room is for one.
        self.room.visit(1, || self.items.with_mut(|items| look(unsafe { &mut *items })))
    }

    /// Frees the lock, waits, and takes the lock again, unless it was cancelled.
    fn wait(&self, actor: usize, condvar: &RawCondvar<usize>, patience: Patience) -> bool {
        let (by, node) = (Waiters::<ALL>::by(actor), Node::new(actor));
        let runs_next = |_| below(2) == 0;
        // SAFETY: the node is in no queue, and stays until it has left or is claimed.
        let first =
            unsafe { condvar.wait(&by, &self.mutex, NonNull::from(&node), None, runs_next) };
        self.waiters.wake(first.unwrap());
        // SAFETY: alive, and it waits for this condition.
        let leave = |node| unsafe { condvar.leave(&by, node) };
        let give_way = |note| {
            let next = condvar.give_way(&by, &self.mutex, note);
            self.waiters.wake(next.into_iter().flatten());
        };
        match wait(&self.waiters, actor, &node, patience, leave, give_way) {
            Ended::Claimed(note) => self.waiters.lock_again(&self.mutex, actor, &node, note),
            Ended::TimedOut => self.lock(actor),
            Ended::Cancelled => return false,
        }
        true
    }

    fn patience(&self) -> Patience {
        if self.strict || below(2) == 0 { Patience::Endless } else { Patience::Deadline }
    }

    fn notify(&self, actor: usize, condvar: &RawCondvar<usize>, most: usize) {
        if !condvar.is_empty() {
            self.waiters.wake(condvar.notify(&Waiters::<ALL>::by(actor), most, |_, _| ()));
        }
    }

    /// Frees the lock and notifies, in either order, one waiter or all.
    fn unlock_and_notify(&self, actor: usize, condvar: &RawCondvar<usize>) {
        let most = if self.strict || below(2) == 0 { 1 } else { usize::MAX };
        if below(2) == 0 {
            self.notify(actor, condvar, most);
            self.unlock(actor);
        } else {
            self.unlock(actor);
            self.notify(actor, condvar, most);
        }
    }

    fn produce(&self, actor: usize) {
        for number in 0..ITEMS {
            self.lock(actor);
            while self.items(|items| items.len() == self.capacity) {
                self.wait(actor, &self.emptied, self.patience());
            }
            self.items(|items| items.push_back((actor, number)));
            self.unlock_and_notify(actor, &self.filled);
        }
    }

    fn consume(&self, actor: usize) -> Vec<Item> {
        let take = |_| {
            self.lock(actor);
            while self.items(|items| items.is_empty()) {
                self.wait(actor, &self.filled, self.patience());
            }
            let item = self.items(|items| items.pop_front()).unwrap();
            self.unlock_and_notify(actor, &self.emptied);
            item
        };
        (0..ITEMS).map(take).collect()
    }

    /// Waits as a consumer does, but takes neither an item nor a notification.
    fn pass_by(&self, actor: usize) {
        for _ in 0..2 * ITEMS {
            self.lock(actor);
            if self.items(|items| !items.is_empty()) {
                self.unlock(actor);
            } else if self.wait(
                actor,
                &self.filled,
                [Patience::Cancel, Patience::Deadline][below(2)],
            ) {
                self.unlock(actor);
                self.notify(actor, &self.filled, 1);
            }
        }
    }
}

#[test]
fn all_is_received_once_and_in_order() {
    rehearse(|| {
        let (shared, pairs) = (Shared::new(), 1 + below(PAIRS));
        let makers: Vec<_> =
            (0..pairs).map(|actor| spawn(&shared, move |shared| shared.produce(actor))).collect();
        let takers: Vec<_> = (PAIRS..PAIRS + pairs)
            .map(|actor| spawn(&shared, move |shared| shared.consume(actor)))
            .collect();
        let others: Vec<_> = (2 * PAIRS..ALL)
            .map(|actor| spawn(&shared, move |shared| shared.pass_by(actor)))
            .collect();
        makers.into_iter().chain(others).for_each(|one| one.join().unwrap());
        let received = takers.into_iter().map(|taker| taker.join().unwrap());
        let mut received: Vec<_> =
            received.inspect(|items| assert_in_order(items)).flatten().collect();
        received.sort();
        let sent = (0..pairs).flat_map(|actor| (0..ITEMS).map(move |number| (actor, number)));
        assert_eq!(received, sent.collect::<Vec<_>>());
        assert!(shared.filled.is_empty() && shared.emptied.is_empty());
        assert!(shared.mutex.try_acquire(), "nothing is left behind");
    });
}

/// Asserts that the items of one producer come in the order in which they were made.
fn assert_in_order(items: &[Item]) {
    for maker in 0..PAIRS {
        let numbers = items.iter().filter(|item| item.0 == maker).map(|item| item.1);
        assert!(numbers.is_sorted(), "{items:?}");
    }
}
