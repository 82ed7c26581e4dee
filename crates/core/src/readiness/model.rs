//! Waiters at a descriptor, data that comes in, and threads that report it.

use loom::sync::Arc;

use super::*;
use crate::modelled::{Turn, Waiters, bounded, spawn};

struct Shared {
    readiness: RawReadiness<usize>,
    waiters: Waiters<3>,
    /// The items in the kernel. The kernel may look for them without a lock, so nothing here orders
    /// anything.
    items: AtomicU32,
    /// 1 if there is an end behind the items.
    ended: AtomicU32,
    /// Exchanged before each look at the word and each edge.
    turn: Turn,
}

impl Shared {
    fn new(items: u32) -> Arc<Self> {
        Arc::new(Self {
            readiness: RawReadiness::new(),
            waiters: Waiters::new(),
            items: AtomicU32::new(items),
            ended: AtomicU32::new(0),
            turn: Turn::new(),
        })
    }

    fn put(&self, items: u32) {
        self.items.fetch_add(items, Ordering::Relaxed);
    }

    fn seen(&self) -> SeenReadiness {
        self.turn.take();
        self.readiness.seen()
    }

    fn report(&self, actor: usize, closed: bool) {
        self.turn.take();
        self.waiters.wake(self.readiness.signal(&Waiters::<3>::by(actor), closed));
    }

    fn pass_on(&self, actor: usize) {
        self.waiters.wake(self.readiness.pass_on(&Waiters::<3>::by(actor)));
    }

    /// Stands for the system call: takes at most `most` items, and returns their number.
    fn take(&self, most: u32) -> u32 {
        let mut items = self.items.load(Ordering::Relaxed);
        while items > 0 {
            let left = items.saturating_sub(most);
            let taken =
                self.items.compare_exchange(items, left, Ordering::Relaxed, Ordering::Relaxed);
            match taken {
                Ok(_) => return items - left,
                Err(now) => items = now,
            }
        }
        0
    }

    /// Waits, and returns true if the caller was claimed; false if it has to look again at once.
    fn wait(&self, actor: usize, seen: SeenReadiness) -> bool {
        let node = Node::new(actor);
        // SAFETY: the node is in no queue, and stays until it is claimed.
        if unsafe { self.readiness.wait(&Waiters::<3>::by(actor), NonNull::from(&node), seen) } {
            return false;
        }
        self.waiters.wait(actor, &node);
        true
    }

    fn read(&self, actor: usize) {
        let mut claimed = false;
        loop {
            let seen = self.seen();
            if !seen.is_drained() {
                if self.take(1) == 1 {
                    break;
                }
                self.readiness.drained(seen);
            }
            claimed = self.wait(actor, seen);
        }
        if claimed {
            self.pass_on(actor);
        }
    }

    /// Takes all items until the end, and always asks for more than there are.
    fn read_to_end(&self, actor: usize) -> u32 {
        let mut read = 0;
        loop {
            let seen = self.seen();
            if !seen.is_drained() {
                let taken = self.take(u32::MAX);
                read += taken;
                if taken == 0 && self.ended.load(Ordering::Relaxed) == 1 {
                    return read;
                }
                self.readiness.drained(seen);
                if taken > 0 {
                    continue;
                }
            }
            self.wait(actor, seen);
        }
    }

    /// Queues `node`, which stays until it has left or is claimed, as there is nothing.
    fn queue(&self, node: &Node<usize>) {
        let seen = self.seen();
        // SAFETY: in no queue, and it stays, by this function's contract.
        assert!(!unsafe { self.readiness.wait(&Waiters::<3>::by(0), NonNull::from(node), seen) });
    }
}

#[test]
fn an_edge_is_seen_or_the_waiter_is() {
    loom::model(|| {
        let shared = Shared::new(0);
        let kernel = spawn(&shared, |shared| {
            shared.put(1);
            shared.report(1, false);
        });
        shared.read(0);
        kernel.join().unwrap();
        assert!(!shared.readiness.has_waiters());
    });
}

#[test]
fn all_readers_share_the_items_of_one_edge() {
    loom::model(|| {
        let shared = Shared::new(0);
        let node = Node::new(1);
        shared.queue(&node);
        let other = spawn(&shared, |shared| shared.read(0));
        shared.put(2);
        shared.report(2, false);
        shared.waiters.wait(1, &node);
        assert_eq!(shared.take(1), 1);
        shared.pass_on(1);
        other.join().unwrap();
        assert_eq!(shared.take(1), 0);
    });
}

#[test]
fn two_readers_at_a_time_get_one_each() {
    bounded(1, || {
        let shared = Shared::new(0);
        let other = spawn(&shared, |shared| shared.read(1));
        let kernel = spawn(&shared, |shared| {
            shared.put(2);
            shared.report(2, false);
        });
        shared.read(0);
        other.join().unwrap();
        kernel.join().unwrap();
        assert_eq!(shared.take(1), 0);
    });
}

#[test]
fn each_edge_has_another_look() {
    loom::model(|| {
        let shared = Shared::new(0);
        let nodes = [0, 1].map(Node::new);
        nodes.iter().for_each(|node| shared.queue(node));
        let other = spawn(&shared, |shared| shared.report(2, false));
        shared.report(0, false);
        other.join().unwrap();
        for (actor, node) in nodes.iter().enumerate() {
            assert_eq!(shared.waiters.wait(actor, node), 0);
        }
        assert!(!shared.readiness.has_waiters());
    });
}

#[test]
fn a_leaving_waiter_takes_no_edge_along() {
    loom::model(|| {
        let shared = Shared::new(0);
        let nodes = [0, 1].map(Node::new);
        nodes.iter().for_each(|node| shared.queue(node));
        let kernel = spawn(&shared, |shared| {
            shared.put(1);
            shared.report(2, false);
        });
        let by = Waiters::<3>::by(0);
        // SAFETY: alive, and queued here.
        if unsafe { shared.readiness.leave(&by, NonNull::from(&nodes[0])) } != Unlinked::Mine {
            shared.waiters.wait(0, &nodes[0]);
            shared.pass_on(0);
        }
        shared.waiters.wait(1, &nodes[1]);
        assert!(!shared.readiness.seen().is_drained());
        assert_eq!(shared.take(1), 1);
        kernel.join().unwrap();
        assert!(!shared.readiness.has_waiters());
    });
}

#[test]
fn an_edge_after_a_look_is_not_taken_for_drained() {
    loom::model(|| {
        let shared = Shared::new(1);
        let kernel = spawn(&shared, |shared| {
            shared.put(1);
            shared.report(1, false);
        });
        let seen = shared.seen();
        if shared.take(u32::MAX) == 1 {
            shared.readiness.drained(seen);
            shared.read(0);
        }
        kernel.join().unwrap();
    });
}

#[test]
fn after_one_reader_drains_another_waits() {
    bounded(3, || {
        let shared = Shared::new(0);
        let kernel = spawn(&shared, |shared| {
            shared.put(1);
            shared.report(2, false);
        });
        let looks = spawn(&shared, |shared| {
            let seen = shared.seen();
            if shared.take(1) == 0 {
                shared.readiness.drained(seen);
            }
        });
        let seen = shared.seen();
        if seen.is_drained() {
            shared.wait(0, seen);
            shared.read(0);
        }
        looks.join().unwrap();
        kernel.join().unwrap();
    });
}

#[test]
fn the_end_is_found_behind_the_taken_bytes() {
    loom::model(|| {
        let shared = Shared::new(1);
        let kernel = spawn(&shared, |shared| {
            shared.ended.store(1, Ordering::Relaxed);
            shared.report(1, true);
        });
        assert_eq!(shared.read_to_end(0), 1);
        kernel.join().unwrap();
        assert!(shared.readiness.seen().is_closed());
    });
}

#[test]
fn all_look_again_when_told_to() {
    bounded(3, || {
        let shared = Shared::new(0);
        let node = Node::new(1);
        shared.queue(&node);
        let kernel = spawn(&shared, |shared| {
            shared.waiters.wake(shared.readiness.wake_all(&Waiters::<3>::by(2)));
        });
        let seen = SeenReadiness(0);
        shared.wait(0, seen);
        shared.waiters.wait(1, &node);
        kernel.join().unwrap();
        assert!(!shared.readiness.seen().is_closed());
    });
}
