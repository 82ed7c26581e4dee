//! The watches of one worker.

use std::ptr::NonNull;

use super::entry::{EntryState, Notice, WatchEntry};
use crate::atomic::{AtomicUsize, Ordering, UnsafeCell, fence};
use crate::circle;
use crate::list::Unlinked;
use crate::lock::{Contender, QueueLock};

/// The outcome of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Scan {
    /// No look was made: another thread has the table's lock, most likely to scan it.
    Busy,
    /// Entries were looked at.
    Done {
        /// Number of entries.
        visited: usize,
        /// Number of hits among them.
        hits: usize,
    },
}

/// Entries in the frames of their waiters; the polled and the notified are in separate lists.
pub struct WatchTable<W> {
    /// Guards both lists, and the words of their entries: a scanner looks at words under it only.
    lock: QueueLock,
    /// Numbers of listed entries. Stored under the lock, loaded by any thread.
    polled: AtomicUsize,
    elsewhere: AtomicUsize,
    doorbells: AtomicUsize,
    notified: AtomicUsize,
    /// Touched under the lock only.
    lists: UnsafeCell<Lists<W>>,
}

struct Lists<W> {
    /// The polled or doorbell entry that is looked at next.
    sampled: Option<NonNull<WatchEntry<W>>>,
    /// The oldest notified entry.
    notified: Option<NonNull<WatchEntry<W>>>,
}

// SAFETY: lists and entries are touched under the lock only; a `W` is copied from waiter to
// scanner.
unsafe impl<W: Copy + Send> Send for WatchTable<W> {}
// SAFETY: as for Send.
unsafe impl<W: Copy + Send> Sync for WatchTable<W> {}

impl<W: Copy> WatchTable<W> {
    /// Creates an empty table.
    #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
    pub fn new() -> Self {
        Self {
            lock: QueueLock::new(),
            polled: AtomicUsize::new(0),
            elsewhere: AtomicUsize::new(0),
            doorbells: AtomicUsize::new(0),
            notified: AtomicUsize::new(0),
            lists: UnsafeCell::new(Lists { sampled: None, notified: None }),
        }
    }

    /// Returns the number of polled entries a moment ago, those for writers elsewhere among them:
    /// while there are any, an agent polls.
    pub fn polled(&self) -> usize {
        self.polled.load(Ordering::Relaxed) + self.elsewhere()
    }

    /// Returns the number of entries for writers elsewhere a moment ago.
    pub fn elsewhere(&self) -> usize {
        self.elsewhere.load(Ordering::Relaxed)
    }

    /// Returns the number of doorbell entries a moment ago.
    pub fn doorbells(&self) -> usize {
        self.doorbells.load(Ordering::Relaxed)
    }

    /// Returns the number of entries a moment ago that a full pass has to look at.
    pub fn sampled(&self) -> usize {
        self.polled() + self.doorbells()
    }

    /// Returns the number of notified entries a moment ago.
    pub fn notified(&self) -> usize {
        self.notified.load(Ordering::Relaxed)
    }

    /// Lists `entry`. If it is notified, the waiter then looks at its word once more.
    ///
    /// # Safety
    ///
    /// `entry` is in no table. It and its word stay alive and in place until [`WatchTable::remove`]
    /// returned, or its state is seen to be [`EntryState::Hit`].
    pub unsafe fn insert(&self, by: &impl Contender, entry: NonNull<WatchEntry<W>>) {
        // SAFETY: alive by this function's contract.
        let notice = unsafe { entry.as_ref() }.notice();
        {
            let _held = self.lock.lock(by);
            let first = self.first(notice);
            // SAFETY: alive and in no list, as are those of the list; the lock is held.
            unsafe {
                entry.as_ref().set_listed();
                circle::insert(first, entry);
                self.set_first(notice, first.or(Some(entry)));
            }
            self.count(notice, 1);
        }
        if notice == Notice::Notified {
            // Pairs with the fence in `notify`.
            fence(Ordering::SeqCst);
        }
    }

    /// Ends the watch of `entry`. Afterwards no scanner touches the entry or its word.
    ///
    /// [`Unlinked::AlreadyGone`]: a scanner saw a hit and wakes the waiter once.
    ///
    /// # Safety
    ///
    /// `entry` is alive, and the table that it was last listed in is this one.
    pub unsafe fn remove(&self, by: &impl Contender, entry: NonNull<WatchEntry<W>>) -> Unlinked {
        let _held = (!cfg!(weaken = "watch-remove")).then(|| self.lock.lock(by));
        // SAFETY: alive by this function's contract; if listed then here, and the lock is held.
        unsafe {
            if entry.as_ref().state() != EntryState::Listed {
                return Unlinked::AlreadyGone;
            }
            self.unlist(entry);
            entry.as_ref().set_out();
        }
        Unlinked::Mine
    }

    /// Looks at up to `budget` polled and doorbell entries, from where the last scan stopped, and
    /// reports the waiter of each hit, which the caller wakes exactly once.
    ///
    /// Gives up at once if the lock is taken. `hit` runs under the lock: it may queue and send
    /// messages, but not use this table. A pass over all entries takes (number of entries)
    /// `/ budget` scans, rounded up.
    pub fn scan(&self, by: &impl Contender, budget: usize, hit: impl FnMut(W)) -> Scan {
        if self.sampled() == 0 {
            return Scan::Done { visited: 0, hits: 0 };
        }
        let Some(_held) = self.lock.try_lock(by) else { return Scan::Busy };
        let visited = self.sampled().min(budget);
        // SAFETY: the lock is held.
        let hits = unsafe { self.sample_next(visited, hit) };
        Scan::Done { visited, hits }
    }

    /// Looks at all polled and doorbell entries once, even if another thread does so: the last look
    /// before a sleep. Reports as [`scan`](Self::scan) does; returns the number of hits.
    pub fn scan_all(&self, by: &impl Contender, hit: impl FnMut(W)) -> usize {
        let _held = self.lock.lock(by);
        // SAFETY: the lock is held.
        unsafe { self.sample_next(self.sampled(), hit) }
    }

    /// Looks at the next `entries` entries; returns the number of hits.
    ///
    /// # Safety
    ///
    /// The lock is held.
    unsafe fn sample_next(&self, entries: usize, mut hit: impl FnMut(W)) -> usize {
        let mut hits = 0;
        for _ in 0..entries {
            let Some(entry) = self.first(Notice::Polled) else { break };
            // SAFETY: listed, and the lock is held.
            unsafe {
                if let Some(waiter) = self.sample(entry) {
                    hits += 1;
                    hit(waiter);
                } else {
                    self.set_first(Notice::Polled, Some(circle::next(entry)));
                }
            }
        }
        hits
    }

    /// Looks at the notified entries of the word at `address`, which the caller has just changed,
    /// and reports the waiter of each hit, which the caller wakes exactly once. Returns the number
    /// of hits.
    ///
    /// Costs a fence and a load if there is no notified entry. `hit` runs under the lock, as in
    /// [`WatchTable::scan`].
    pub fn notify(&self, by: &impl Contender, address: usize, mut hit: impl FnMut(W)) -> usize {
        if !cfg!(weaken = "watch-notified") {
            // Pairs with the fence in `insert`: either this sees the entry, or the waiter's second
            // look sees the change.
            fence(Ordering::SeqCst);
        }
        if self.notified() == 0 {
            return 0;
        }
        let _held = self.lock.lock(by);
        let (mut hits, mut at) = (0, self.first(Notice::Notified));
        for _ in 0..self.notified() {
            let Some(entry) = at else { break };
            // SAFETY: listed, and the lock is held.
            unsafe {
                at = Some(circle::next(entry));
                if entry.as_ref().watches(address)
                    && let Some(waiter) = self.sample(entry)
                {
                    hits += 1;
                    hit(waiter);
                }
            }
        }
        hits
    }

    /// Looks at one word: on a hit takes the entry out and returns its waiter.
    ///
    /// # Safety
    ///
    /// `entry` is listed here, and the lock is held.
    unsafe fn sample(&self, entry: NonNull<WatchEntry<W>>) -> Option<W> {
        // SAFETY: a listed entry is alive until it is seen hit, which is the last access to it.
        unsafe {
            let seen = entry.as_ref().sample()?;
            let waiter = entry.as_ref().waiter();
            self.unlist(entry);
            WatchEntry::set_hit(entry, seen);
            Some(waiter)
        }
    }

    /// # Safety
    ///
    /// `entry` is listed here, and the lock is held.
    unsafe fn unlist(&self, entry: NonNull<WatchEntry<W>>) {
        // SAFETY: listed, so alive, as all listed entries are; the lock is held.
        unsafe {
            let notice = entry.as_ref().notice();
            let next = circle::remove(entry);
            if self.first(notice) == Some(entry) {
                self.set_first(notice, next);
            }
            self.count(notice, -1);
        }
    }

    fn first(&self, notice: Notice) -> Option<NonNull<WatchEntry<W>>> {
        self.lists.with(|lists| {
            // SAFETY: callers hold the lock, so no thread writes.
            let lists = unsafe { &*lists };
            match notice {
                Notice::Polled | Notice::Elsewhere | Notice::Doorbell => lists.sampled,
                Notice::Notified => lists.notified,
            }
        })
    }

    /// # Safety
    ///
    /// `first` is listed here, unless none is, and the lock is held.
    unsafe fn set_first(&self, notice: Notice, first: Option<NonNull<WatchEntry<W>>>) {
        self.lists.with_mut(|lists| {
            // SAFETY: the lock is held, so this is the only reference.
            let lists = unsafe { &mut *lists };
            match notice {
                Notice::Polled | Notice::Elsewhere | Notice::Doorbell => lists.sampled = first,
                Notice::Notified => lists.notified = first,
            }
        });
    }

    /// Adds `change` to a count; under the lock, so that a load and a store suffice.
    fn count(&self, notice: Notice, change: isize) {
        let count = match notice {
            Notice::Polled => &self.polled,
            Notice::Elsewhere => &self.elsewhere,
            Notice::Doorbell => &self.doorbells,
            Notice::Notified => &self.notified,
        };
        // Relaxed: for notified entries the fence in `insert` orders it; a polled one is looked at
        // anyway.
        count.store(count.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
    }
}
