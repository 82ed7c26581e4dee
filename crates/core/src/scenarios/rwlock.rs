//! A lock of readers and writers, which is a pool of permits: one for a reader, all for a writer.

use shuttle::sync::Arc;

use super::*;
use crate::modelled::spawn;
use crate::semaphore::{MAX_PERMITS, RawSemaphore, Request};
use crate::sync::UnsafeCell;

const ALL: usize = 5;
const ROUNDS: usize = 4;

struct Shared {
    permits: RawSemaphore<usize>,
    waiters: Waiters<ALL>,
    room: Room,
    /// Both the same, unless somebody writes.
    written: UnsafeCell<[u32; 2]>,
}

// SAFETY: what is written is touched by who has the lock; that is what the scenario checks.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            permits: RawSemaphore::new(MAX_PERMITS),
            waiters: Waiters::new(),
            room: Room::new(MAX_PERMITS),
            written: UnsafeCell::new([0; 2]),
        })
    }

    /// Whether the permits were had.
    fn lock(&self, who: usize, permits: u32) -> bool {
        if self.permits.try_acquire(permits) {
            return true;
        }
        let (by, node) = (Waiters::<ALL>::by(who), Node::new(Request { waiter: who, permits }));
        // SAFETY: the node is in no queue, and stays until it has left or is claimed.
        if unsafe { self.permits.acquire(&by, NonNull::from(&node)) } {
            return true;
        }
        let leave = |node| {
            // SAFETY: alive, and queued here.
            let unlinked = unsafe { self.permits.leave(&by, node) };
            self.serve(who);
            unlinked
        };
        let give_way = |_| self.unlock(who, permits);
        let ended = wait(&self.waiters, who, &node, Patience::any(), leave, give_way);
        matches!(ended, Ended::Claimed(_))
    }

    fn unlock(&self, who: usize, permits: u32) {
        if self.permits.release_fast(permits) == Ok(false) {
            self.permits.release(&Waiters::<ALL>::by(who), permits).unwrap();
            self.serve(who);
        }
    }

    fn serve(&self, who: usize) {
        while let Some(waiter) = self.permits.serve(&Waiters::<ALL>::by(who)) {
            self.waiters.wake([waiter]);
        }
    }

    fn read(&self) {
        // SAFETY: nobody writes, as the room has a place for the caller.
        let read = || self.written.with(|written| unsafe { *written });
        self.room.visit(1, || {
            let before = read();
            thread::yield_now();
            assert_eq!((before, before[0]), (read(), before[1]));
        });
    }

    fn write(&self) {
        // SAFETY: the caller has the whole room.
        let add = |i: usize| self.written.with_mut(|written| unsafe { (*written)[i] += 1 });
        self.room.visit(MAX_PERMITS, || {
            add(0);
            thread::yield_now();
            add(1);
        });
    }

    /// Reads, writes, or goes on to read what it has written; how often it has written.
    fn come(&self, who: usize) -> u32 {
        match below(3) {
            0 if self.lock(who, 1) => {
                self.read();
                self.unlock(who, 1);
                0
            }
            1 if self.lock(who, MAX_PERMITS) => {
                self.write();
                self.unlock(who, MAX_PERMITS);
                1
            }
            2 if self.lock(who, MAX_PERMITS) => {
                self.write();
                self.unlock(who, MAX_PERMITS - 1);
                self.read();
                self.unlock(who, 1);
                1
            }
            _ => 0,
        }
    }
}

#[test]
fn many_read_or_one_writes() {
    rehearse(|| {
        let shared = Shared::new();
        let all: Vec<_> = (0..ALL)
            .map(|who| {
                spawn(&shared, move |shared| (0..ROUNDS).map(|_| shared.come(who)).sum::<u32>())
            })
            .collect();
        let written = all.into_iter().map(|one| one.join().unwrap()).sum();
        // SAFETY: all others have ended.
        assert_eq!(shared.written.with(|written| unsafe { *written }), [written; 2]);
        assert_eq!(shared.permits.available(), MAX_PERMITS);
        assert!(shared.permits.try_acquire(MAX_PERMITS), "nobody is said to wait");
    });
}
