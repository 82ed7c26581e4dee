//! The watches of one worker.

use std::ptr::NonNull;

use super::entry::{Entry, EntryState, Notice};
use crate::circle;
use crate::list::Unlinked;
use crate::lock::{Contender, QueueLock};
use crate::sync::{AtomicUsize, Ordering, UnsafeCell, fence};

/// What a scan did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Scan {
    /// Nothing: somebody else has the table's lock, most likely to scan it.
    Busy,
    /// It looked at entries.
    Done {
        /// How many.
        visited: usize,
        /// How many of them were hits.
        hits: usize,
    },
}

/// Entries in the frames of their waiters, those that are sampled and the told ones apart.
pub struct Table<W> {
    /// Guards both lists, and every word of theirs: a scanner looks at words under it only.
    lock: QueueLock,
    /// How many are listed. Stored under the lock, loaded by anyone.
    silent: AtomicUsize,
    rung: AtomicUsize,
    told: AtomicUsize,
    /// Touched under the lock only.
    lists: UnsafeCell<Lists<W>>,
}

struct Lists<W> {
    /// The silent or rung entry that is looked at next.
    sampled: Option<NonNull<Entry<W>>>,
    /// The oldest told entry.
    told: Option<NonNull<Entry<W>>>,
}

// SAFETY: lists and entries are touched under the lock only; a `W` is copied from waiter to scanner.
unsafe impl<W: Copy + Send> Send for Table<W> {}
// SAFETY: as for Send.
unsafe impl<W: Copy + Send> Sync for Table<W> {}

impl<W: Copy> Table<W> {
    /// An empty table.
    #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
    pub fn new() -> Self {
        Self {
            lock: QueueLock::new(),
            silent: AtomicUsize::new(0),
            rung: AtomicUsize::new(0),
            told: AtomicUsize::new(0),
            lists: UnsafeCell::new(Lists { sampled: None, told: None }),
        }
    }

    /// How many silent entries were listed a moment ago: while there are any, somebody samples.
    pub fn silent(&self) -> usize {
        self.silent.load(Ordering::Relaxed)
    }

    /// How many rung entries were listed a moment ago.
    pub fn rung(&self) -> usize {
        self.rung.load(Ordering::Relaxed)
    }

    /// How many entries a full pass has to look at.
    fn sampled(&self) -> usize {
        self.silent() + self.rung()
    }

    /// How many told entries were listed a moment ago.
    pub fn told(&self) -> usize {
        self.told.load(Ordering::Relaxed)
    }

    /// Lists `entry`. Where it is told, the waiter then samples its word once more.
    ///
    /// # Safety
    ///
    /// `entry` is in no table. It and its word stay alive and in place until [`Table::remove`]
    /// returned, or its state is seen to be [`EntryState::Hit`].
    pub unsafe fn insert(&self, by: &impl Contender, entry: NonNull<Entry<W>>) {
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
        if notice == Notice::Told {
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
    pub unsafe fn remove(&self, by: &impl Contender, entry: NonNull<Entry<W>>) -> Unlinked {
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

    /// Samples at most `budget` silent and rung entries, from where the last scan stopped, and reports the
    /// waiter of each hit, whom the caller wakes exactly once.
    ///
    /// Gives up at once if the lock is taken. `hit` runs under the lock: it may queue and mail, but
    /// not use this table. A pass over all entries takes their number `/ budget` scans, rounded up.
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

    /// Samples all silent and rung entries once, whoever else does so: the last look before a sleep.
    /// Reports as [`scan`](Self::scan) does; how many hits there were.
    pub fn scan_all(&self, by: &impl Contender, hit: impl FnMut(W)) -> usize {
        let _held = self.lock.lock(by);
        // SAFETY: the lock is held.
        unsafe { self.sample_next(self.sampled(), hit) }
    }

    /// Looks at the next so many entries; how many hits there were.
    ///
    /// # Safety
    ///
    /// The lock is held.
    unsafe fn sample_next(&self, entries: usize, mut hit: impl FnMut(W)) -> usize {
        let mut hits = 0;
        for _ in 0..entries {
            let Some(entry) = self.first(Notice::Silent) else { break };
            // SAFETY: listed, and the lock is held.
            unsafe {
                if let Some(waiter) = self.sample(entry) {
                    hits += 1;
                    hit(waiter);
                } else {
                    self.set_first(Notice::Silent, Some(circle::next(entry)));
                }
            }
        }
        hits
    }

    /// Samples the told entries of the word at `address`, which the caller has just changed, and
    /// reports the waiter of each hit, whom the caller wakes exactly once. Returns how many.
    ///
    /// Costs a fence and a load where no entry is told. `hit` runs under the lock, as in [`Table::scan`].
    pub fn notify(&self, by: &impl Contender, address: usize, mut hit: impl FnMut(W)) -> usize {
        if !cfg!(weaken = "watch-told") {
            // Pairs with the fence in `insert`: either this sees the entry or the waiter's sample
            // sees the change.
            fence(Ordering::SeqCst);
        }
        if self.told() == 0 {
            return 0;
        }
        let _held = self.lock.lock(by);
        let (mut hits, mut at) = (0, self.first(Notice::Told));
        for _ in 0..self.told() {
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
    unsafe fn sample(&self, entry: NonNull<Entry<W>>) -> Option<W> {
        // SAFETY: a listed entry is alive until it is seen hit, which is the last that is done to it.
        unsafe {
            let seen = entry.as_ref().sample()?;
            let waiter = entry.as_ref().waiter();
            self.unlist(entry);
            Entry::set_hit(entry, seen);
            Some(waiter)
        }
    }

    /// # Safety
    ///
    /// `entry` is listed here, and the lock is held.
    unsafe fn unlist(&self, entry: NonNull<Entry<W>>) {
        // SAFETY: listed, so alive as all that are listed; the lock is held.
        unsafe {
            let notice = entry.as_ref().notice();
            let next = circle::remove(entry);
            if self.first(notice) == Some(entry) {
                self.set_first(notice, next);
            }
            self.count(notice, -1);
        }
    }

    fn first(&self, notice: Notice) -> Option<NonNull<Entry<W>>> {
        self.lists.with(|lists| {
            // SAFETY: callers hold the lock, so nobody writes.
            let lists = unsafe { &*lists };
            match notice {
                Notice::Silent | Notice::Rung => lists.sampled,
                Notice::Told => lists.told,
            }
        })
    }

    /// # Safety
    ///
    /// `first` is listed here, unless none is, and the lock is held.
    unsafe fn set_first(&self, notice: Notice, first: Option<NonNull<Entry<W>>>) {
        self.lists.with_mut(|lists| {
            // SAFETY: the lock is held, so this is the only reference.
            let lists = unsafe { &mut *lists };
            match notice {
                Notice::Silent | Notice::Rung => lists.sampled = first,
                Notice::Told => lists.told = first,
            }
        });
    }

    /// Under the lock, so that a load and a store suffice.
    fn count(&self, notice: Notice, change: isize) {
        let count = match notice {
            Notice::Silent => &self.silent,
            Notice::Rung => &self.rung,
            Notice::Told => &self.told,
        };
        // Relaxed: for told entries the fence in `insert` orders it, a silent one is sampled anyway.
        count.store(count.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
    }
}
