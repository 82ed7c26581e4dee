//! A lock of readers and writers, which is a pool of permits: one for a reader, all for a writer.

use shuttle::sync::Arc;

use super::pool::{ALL, Pool};
use super::*;
use crate::atomic::UnsafeCell;
use crate::modelled::spawn;
use crate::semaphore::MAX_PERMITS;

const ROUNDS: usize = 4;

struct Shared {
    permits: Pool,
    /// Two equal numbers, except while a writer writes.
    written: UnsafeCell<[u32; 2]>,
}

// SAFETY: the scenario checks that only holders of the lock touch the data.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        let permits = Pool::new(MAX_PERMITS);
        Arc::new(Self { permits, written: UnsafeCell::new([0; 2]) })
    }

    fn read(&self) {
        // SAFETY: there is no writer, as the room has a place for the caller.
        let read = || self.written.with(|written| unsafe { *written });
        self.permits.room.visit(1, || {
            let before = read();
            thread::yield_now();
            assert_eq!((before, before[0]), (read(), before[1]));
        });
    }

    fn write(&self) {
        // SAFETY: the caller has the whole room.
        let add = |i: usize| self.written.with_mut(|written| unsafe { (*written)[i] += 1 });
        self.permits.room.visit(MAX_PERMITS, || {
            add(0);
            thread::yield_now();
            add(1);
        });
    }

    /// Reads, writes, or goes on to read the written data; returns the number of writes.
    fn come(&self, actor: usize) -> u32 {
        match below(3) {
            0 if self.permits.acquire(actor, 1) => {
                self.read();
                self.permits.release(actor, 1);
                0
            }
            1 if self.permits.acquire(actor, MAX_PERMITS) => {
                self.write();
                self.permits.release(actor, MAX_PERMITS);
                1
            }
            2 if self.permits.acquire(actor, MAX_PERMITS) => {
                self.write();
                self.permits.release(actor, MAX_PERMITS - 1);
                self.read();
                self.permits.release(actor, 1);
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
            .map(|actor| {
                spawn(&shared, move |shared| (0..ROUNDS).map(|_| shared.come(actor)).sum::<u32>())
            })
            .collect();
        let written = all.into_iter().map(|one| one.join().unwrap()).sum();
        // SAFETY: all other threads have ended.
        assert_eq!(shared.written.with(|written| unsafe { *written }), [written; 2]);
        assert_eq!(shared.permits.semaphore.available(), MAX_PERMITS);
        assert!(shared.permits.semaphore.try_acquire(MAX_PERMITS), "the word tells of no waiter");
    });
}
