//! Threads that want permits, and a thread that leaves the queue.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::lock::testing::Tester;
use crate::modelled::{Sleep, bounded, spawn};

/// Number of permits that a writer takes.
const ALL: u32 = MAX_PERMITS;

struct Shared {
    semaphore: RawSemaphore<usize>,
    wakes: [Sleep; 3],
    /// Written by the thread that has all permits; may be read with one of several.
    data: UnsafeCell<u32>,
    /// The place where one reader waits for another.
    both_read: Sleep,
}

// SAFETY: the model checks that only a thread with the permit touches the data.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new(permits: u32) -> Arc<Self> {
        Arc::new(Self {
            semaphore: RawSemaphore::new(permits),
            wakes: [Sleep::new(), Sleep::new(), Sleep::new()],
            data: UnsafeCell::new(0),
            both_read: Sleep::new(),
        })
    }

    fn serve(&self, actor: usize) {
        while let Some(request) = self.semaphore.serve(&Tester(actor as u32 + 1)) {
            self.wakes[request.waiter].wake();
        }
    }

    fn acquire(&self, actor: usize, permits: u32) {
        if self.semaphore.try_acquire(permits) {
            return;
        }
        let node = Node::new(Request { waiter: actor, permits });
        // SAFETY: the node is in no queue, and stays until it is claimed.
        if !unsafe { self.semaphore.acquire(&Tester(actor as u32 + 1), NonNull::from(&node)) } {
            self.wakes[actor].wait();
        }
    }

    fn release(&self, actor: usize, permits: u32) {
        if self.semaphore.release_fast(permits) == Ok(false) {
            self.semaphore.release(&Tester(actor as u32 + 1), permits).unwrap();
            self.serve(actor);
        }
    }

    fn add(&self, actor: usize, permits: u32) {
        self.acquire(actor, permits);
        // SAFETY: the permit is held.
        self.data.with_mut(|data| unsafe { *data += 1 });
        self.release(actor, permits);
    }

    /// Reads beside other readers; returns the data.
    fn read(&self, actor: usize) -> u32 {
        self.acquire(actor, 1);
        // SAFETY: writers are kept out.
        let seen = self.data.with(|data| unsafe { *data });
        self.release(actor, 1);
        seen
    }

    /// Queues `node`, which stays until it is claimed, as its permits are not available.
    fn queue(&self, node: &Node<Request<usize>>) {
        // SAFETY: in no queue, and it stays, by this function's contract.
        assert!(!unsafe { self.semaphore.acquire(&Tester(1), NonNull::from(node)) });
    }

    /// Asks for permits, and leaves without them if it has to wait.
    fn ask(&self, actor: usize, permits: u32) {
        let (by, node) = (Tester(actor as u32 + 1), Node::new(Request { waiter: actor, permits }));
        // SAFETY: the node is in no queue, and stays until it has left or is claimed.
        if !unsafe { self.semaphore.acquire(&by, NonNull::from(&node)) } {
            // SAFETY: alive, and queued here.
            let unlinked = unsafe { self.semaphore.leave(&by, NonNull::from(&node)) };
            self.serve(actor);
            if unlinked == Unlinked::Mine {
                return;
            }
            self.wakes[actor].wait();
        }
        self.release(actor, permits);
    }
}

#[test]
fn one_permit_is_one_holders() {
    bounded(3, || {
        let shared = Shared::new(1);
        let others = [1, 2].map(|actor| spawn(&shared, move |shared| shared.add(actor, 1)));
        shared.add(0, 1);
        others.into_iter().for_each(|other| other.join().unwrap());
        // SAFETY: all other threads have ended.
        assert_eq!(shared.data.with(|data| unsafe { *data }), 3);
        assert_eq!(shared.semaphore.available(), 1);
    });
}

#[test]
fn a_leaving_waiter_holds_no_other_up() {
    bounded(3, || {
        let shared = Shared::new(1);
        assert!(shared.semaphore.try_acquire(1));
        let asks = spawn(&shared, |shared| shared.ask(1, 2));
        let adds = spawn(&shared, |shared| shared.add(2, 1));
        shared.release(0, 1);
        adds.join().unwrap();
        shared.release(0, 1);
        asks.join().unwrap();
        assert_eq!(shared.semaphore.available(), 2);
    });
}

#[test]
fn a_writer_is_alone_and_seen() {
    loom::model(|| {
        let shared = Shared::new(ALL);
        shared.acquire(0, 1);
        let writes = spawn(&shared, |shared| shared.add(1, ALL));
        // SAFETY: held for reading.
        assert_eq!(shared.data.with(|data| unsafe { *data }), 0);
        shared.release(0, 1);
        shared.read(0);
        writes.join().unwrap();
        assert_eq!(shared.read(0), 1);
        assert_eq!(shared.semaphore.available(), ALL);
    });
}

#[test]
fn a_waiting_writer_is_not_overtaken() {
    loom::model(|| {
        let shared = Shared::new(ALL);
        shared.acquire(0, 1);
        let writer = Node::new(Request { waiter: 1, permits: ALL });
        shared.queue(&writer);
        let comes_later = spawn(&shared, |shared| shared.read(2));
        shared.release(0, 1);
        shared.wakes[1].wait();
        // SAFETY: the lock is held for writing.
        shared.data.with_mut(|data| unsafe { *data = 1 });
        shared.release(1, ALL);
        assert_eq!(comes_later.join().unwrap(), 1);
        assert_eq!(shared.semaphore.available(), ALL);
    });
}

#[test]
fn readers_are_beside_each_other() {
    loom::model(|| {
        let shared = Shared::new(ALL);
        shared.acquire(0, ALL);
        let reader = Node::new(Request { waiter: 1, permits: 1 });
        shared.queue(&reader);
        let reads = spawn(&shared, |shared| {
            shared.acquire(2, 1);
            // SAFETY: writers are kept out.
            let seen = shared.data.with(|data| unsafe { *data });
            shared.both_read.wake();
            shared.release(2, 1);
            seen
        });
        // SAFETY: the lock is held for writing.
        shared.data.with_mut(|data| unsafe { *data = 1 });
        // The writer goes on as a reader; it has the lock, and so has the reader in line, until the
        // other reader has it.
        shared.release(0, ALL - 1);
        shared.wakes[1].wait();
        shared.both_read.wait();
        assert_eq!(reads.join().unwrap(), 1);
        shared.release(0, 2);
        assert_eq!(shared.semaphore.available(), ALL);
    });
}
