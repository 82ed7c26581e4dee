//! Writers, scanners and waiters that leave, over table and area.

mod closing;

use std::ptr::{self, NonNull};

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::circle::Circular;
use crate::doorbell::{Doorbell, Listeners};
use crate::list::Unlinked;
use crate::lock::testing::Tester;
use crate::modelled::spawn;

/// A word with the entry that watches it, and a datum that its writer publishes through it.
struct Watched {
    table: WatchTable<usize>,
    word: Arc<AtomicU64>,
    entry: WatchEntry<usize>,
    datum: UnsafeCell<u32>,
}

// SAFETY: the models check that the word hands the datum over.
unsafe impl Sync for Watched {}
// SAFETY: as for Sync.
unsafe impl Send for Watched {}

impl Watched {
    fn new(notice: Notice) -> Arc<Self> {
        let word = Arc::new(AtomicU64::new(0));
        let entry = WatchEntry::new(&*word, Condition::Equal(1u64), notice, 7);
        Arc::new(Self { table: WatchTable::new(), word, entry, datum: UnsafeCell::new(0) })
    }

    fn insert(&self) {
        // SAFETY: in no table; entry and word live as long as the table.
        unsafe { self.table.insert(&Tester(1), NonNull::from(&self.entry)) };
    }

    fn write(&self) {
        // SAFETY: published by the word only afterwards.
        self.datum.with_mut(|datum| unsafe { *datum = 5 });
        self.word.store(1, Ordering::Release);
    }

    fn hits(&self, by: u32) -> usize {
        let mut hits = 0;
        let _ = self.table.scan(&Tester(by), 1, |waiter| {
            assert_eq!(waiter, 7);
            hits += 1;
        });
        hits
    }
}

#[test]
fn a_polled_change_is_hit_once_and_shows_earlier_writes() {
    loom::model(|| {
        let shared = Watched::new(Notice::Polled);
        let writer = spawn(&shared, Watched::write);
        let scanner = spawn(&shared, |shared| shared.hits(2));
        shared.insert();
        if let EntryState::Hit(1) = shared.entry.state() {
            shared.entry.links().reclaim();
            // SAFETY: written before the word.
            assert_eq!(shared.datum.with(|datum| unsafe { *datum }), 5);
        }
        let early = scanner.join().unwrap();
        writer.join().unwrap();
        assert_eq!(early + shared.hits(1), 1);
    });
}

/// An agent goes to sleep on a doorbell while another scanner is at work as well.
#[test]
fn a_rung_change_is_not_slept_through() {
    loom::model(|| {
        let shared = Watched::new(Notice::Doorbell);
        let doors = Arc::new(([Doorbell::new()], Listeners::new()));
        let writer = {
            let (shared, doors) = (shared.clone(), doors.clone());
            loom::thread::spawn(move || {
                shared.write();
                let _ = doors.1.ring(&doors.0, None, |_| ());
            })
        };
        doors.1.listen(0);
        shared.insert();
        doors.0[0].park();
        let hits = shared.table.scan_all(&Tester(1), |_| ());
        writer.join().unwrap();
        assert!(hits == 1 || !doors.0[0].is_parked(), "the agent sleeps, and no ring comes");
    });
}

#[test]
fn of_scanner_and_leaver_one_ends_the_watch() {
    loom::model(|| {
        let shared = Watched::new(Notice::Polled);
        shared.write();
        shared.insert();
        let scanner = spawn(&shared, |shared| shared.hits(2));
        // SAFETY: alive, and only ever in this table.
        let removed = unsafe { shared.table.remove(&Tester(1), NonNull::from(&shared.entry)) };
        shared.entry.links().reclaim();
        let hits = scanner.join().unwrap();
        assert_eq!(removed == Unlinked::Mine, hits == 0);
    });
}

#[test]
fn a_notified_change_is_seen_by_waiter_or_notifier() {
    loom::model(|| {
        let shared = Watched::new(Notice::Notified);
        let notifier = spawn(&shared, |shared| {
            shared.word.store(1, Ordering::Relaxed);
            shared.table.notify(&Tester(2), ptr::from_ref(&*shared.word).addr(), |_| ())
        });
        shared.insert();
        let sleeps = shared.word.load(Ordering::Relaxed) == 0;
        let hits = notifier.join().unwrap();
        assert!(!sleeps || hits == 1, "asleep for ever");
    });
}

struct Armed {
    words: [AtomicU32; 1],
    masks: [AtomicU32; 1],
    waiters: [AtomicPtr<UnsafeCell<u32>>; 1],
    frame: UnsafeCell<u32>,
    datum: UnsafeCell<u32>,
}

// SAFETY: the models check that the protocol hands frame and datum over.
unsafe impl Sync for Armed {}
// SAFETY: as for Sync.
unsafe impl Send for Armed {}

impl Armed {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            words: [AtomicU32::new(0)],
            masks: [AtomicU32::new(0)],
            waiters: [AtomicPtr::new(ptr::null_mut())],
            frame: UnsafeCell::new(0),
            datum: UnsafeCell::new(0),
        })
    }

    fn area(&self) -> Area<'_, u32, UnsafeCell<u32>> {
        Area::new(&self.words, &self.masks, &self.waiters)
    }

    fn arm(&self) {
        // SAFETY: no other thread touches the frame before it is armed.
        self.frame.with_mut(|frame| unsafe { *frame = 3 });
        self.area().arm(0, 1, NonNull::from(&self.frame));
    }

    fn write(&self) {
        // SAFETY: published by the word only afterwards.
        self.datum.with_mut(|datum| unsafe { *datum = 5 });
        self.words[0].store(1, Ordering::Release);
    }

    /// Resumes the waiter if there is a hit.
    fn scan(&self) -> bool {
        let area = self.area();
        let Some(waiter) = area.find_hit(0, 1).and_then(|i| area.claim_hit(i)) else {
            return false;
        };
        // SAFETY: the thread that ended the wait has the frame.
        unsafe { waiter.as_ref().with_mut(|frame| assert_eq!(*frame, 3)) };
        assert_eq!(area.take(0), 1);
        // SAFETY: written before the word, and the word was taken.
        assert_eq!(self.datum.with(|datum| unsafe { *datum }), 5);
        true
    }
}

#[test]
fn no_hit_is_lost_between_arming_and_a_plain_store() {
    loom::model(|| {
        let shared = Armed::new();
        let writer = spawn(&shared, Armed::write);
        let scanner = spawn(&shared, Armed::scan);
        shared.arm();
        let early = scanner.join().unwrap();
        writer.join().unwrap();
        assert!(early != shared.scan(), "hit once");
    });
}

#[test]
fn of_two_scanners_and_a_canceller_one_ends_the_wait() {
    loom::model(|| {
        let shared = Armed::new();
        shared.arm();
        shared.words[0].store(1, Ordering::Release);
        let claim = |shared: &Armed| shared.area().claim_hit(0).is_some();
        let scanners = [spawn(&shared, claim), spawn(&shared, claim)];
        let mut ends = usize::from(shared.area().take_waiter(0).is_some());
        for scanner in scanners {
            ends += usize::from(scanner.join().unwrap());
        }
        assert_eq!(ends, 1);
        assert!(!shared.area().any_armed());
    });
}
