//! Watches: conditions that agents sample for the fibers that wait for them, each an entry in the
//! frame of its fiber.

use std::ptr::NonNull;

use daiko_core::list::Unlinked;
use daiko_core::watch::{Entry, EntryState, Scan, Table};

use super::suspend::{self, Resumed};
use super::{Round, Source, Worker, current};
use crate::deadlock::Target;
use crate::fiber::{ControlBlock, unwind};
use crate::runtime::kernel::ThisThread;
use crate::wait::Deadline;

/// Entries that a scan looks at before others have their turn.
const SLICE: usize = 256;

/// The fiber that an entry wakes.
#[derive(Clone, Copy)]
pub struct Watcher(NonNull<ControlBlock>);

// SAFETY: a control block may be woken from any thread.
unsafe impl Send for Watcher {}

impl Watcher {
    /// What wakes `fiber`, the caller.
    pub fn of(fiber: &ControlBlock) -> Self {
        Watcher(NonNull::from(fiber))
    }

    fn wake(self) {
        // SAFETY: a fiber whose entry was listed waits until this wake.
        unsafe { self.0.as_ref() }.wake(current());
    }
}

/// The watches of the fibers that began to wait on one worker.
pub struct Watches(Table<Watcher>);

impl Watches {
    pub fn new() -> Self {
        Watches(Table::new())
    }

    /// Whether somebody has to sample.
    #[inline]
    pub fn any_silent(&self) -> bool {
        self.0.silent() > 0
    }

    /// Whether somebody has to sample until it sleeps.
    #[inline]
    pub fn any_rung(&self) -> bool {
        self.0.rung() > 0
    }

    /// Samples one slice; true if there was a hit.
    #[inline]
    pub(crate) fn scan(&self) -> bool {
        if !self.any_silent() && !self.any_rung() {
            return false;
        }
        let scan = self.0.scan(&ThisThread, SLICE, Watcher::wake);
        matches!(scan, Scan::Done { hits: 1.., .. })
    }

    /// Samples all, whoever else does; true if there was a hit.
    pub fn scan_all(&self) -> bool {
        self.0.scan_all(&ThisThread, Watcher::wake) > 0
    }

    /// Resumes the fibers that wait for the word at `address` and are to be told of it, if their
    /// condition holds; returns their number.
    pub fn notify(&self, address: usize) -> usize {
        self.0.notify(&ThisThread, address, Watcher::wake)
    }

    /// Lists `entry` and waits until it is hit, unless `seen_before` has seen something; `None`: the deadline has passed
    /// before.
    ///
    /// # Safety
    ///
    /// `entry` is new, and what it looks at is borrowed by the caller.
    pub unsafe fn wait(
        &self,
        worker: &'static Worker,
        fiber: &ControlBlock,
        entry: &Entry<Watcher>,
        seen_before: impl FnOnce() -> Option<u64>,
        target: Target,
        deadline: Deadline,
    ) -> Option<u64> {
        let table = &self.0;
        // SAFETY: new; entry and word outlive the watch, which ends in `leave` below or by the hit after which
        // this fiber is woken.
        unsafe { table.insert(&ThisThread, NonNull::from(entry)) };
        if let Some(value) = seen_before() {
            let _ = leave(table, entry, fiber);
            return Some(value);
        }
        let wait = || suspend::wait_from(worker, fiber, deadline);
        match fiber.waiting_for(target, wait) {
            Resumed::Woken => seen_by(entry),
            _ if leave(table, entry, fiber) == Unlinked::AlreadyGone => seen_by(entry),
            Resumed::Cancelled => unwind::raise_now(fiber),
            Resumed::TimedOut => None,
        }
    }
}

impl Source for Watches {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        let hit = self.scan();
        if hit {
            by.counters.watch_hits.add(1);
        }
        hit
    }

    fn is_silent(&self) -> bool {
        self.any_silent()
    }

    fn may_be_polled_elsewhere(&self) -> bool {
        true
    }
}

/// The value that has met the condition of an entry that was hit.
fn seen_by(entry: &Entry<Watcher>) -> Option<u64> {
    let EntryState::Hit(seen) = entry.state() else { unreachable!("woken without a hit") };
    Some(seen)
}

/// Ends a watch; if it was hit meanwhile, waits for the wake that is on its way.
fn leave(table: &Table<Watcher>, entry: &Entry<Watcher>, fiber: &ControlBlock) -> Unlinked {
    // SAFETY: the entry is alive, and this is its table.
    let unlinked = unsafe { table.remove(&ThisThread, NonNull::from(entry)) };
    if unlinked == Unlinked::AlreadyGone {
        suspend::absorb_wake(fiber);
    }
    unlinked
}
