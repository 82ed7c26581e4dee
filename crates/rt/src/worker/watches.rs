//! Watches: conditions that agents poll on behalf of waiting fibers. Each is an entry in the frame
//! of its fiber.

use std::ptr::NonNull;

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::watch::{EntryState, Scan, WatchEntry, WatchTable};

use super::current::current;
use super::source::{Round, Source};
use super::state::{Watcher, Watches, Worker};
use super::suspend::{self, Resumed};
use crate::call::InCall;
use crate::deadline::Deadline;
use crate::deadlock::WaitTarget;
use crate::fiber::{ControlBlock, unwind, waiter};
use crate::runtime::kernel::ThisThread;

/// Number of entries that one scan looks at before other sources have their turn.
const SLICE: usize = 256;

impl Watcher {
    /// Creates the watcher that wakes `fiber`, the caller.
    pub fn of(fiber: &ControlBlock) -> Self {
        Watcher(waiter::fiber_id(fiber))
    }

    /// Creates the watcher that redeems `ticket`.
    ///
    /// # Safety
    ///
    /// As for [`ticket_id`](waiter::ticket_id).
    pub unsafe fn of_ticket(ticket: &Ticket<WaiterId>) -> Self {
        // SAFETY: passed on to the caller.
        Watcher(unsafe { waiter::ticket_id(ticket) })
    }

    fn wake(self, call: InCall<'_>) {
        // SAFETY: a waiter with a listed entry waits until this wake, or is recalled.
        unsafe { waiter::wake(call, self.0, current()) };
    }
}

impl Watches {
    #[allow(clippy::new_without_default, reason = "a worker makes its tables by hand")]
    pub fn new() -> Self {
        Watches(WatchTable::new())
    }

    /// Returns true if an entry has to be polled even while its worker sleeps.
    #[inline]
    pub fn any_polled(&self) -> bool {
        self.0.polled() > 0
    }

    /// Returns true if an entry has to be polled as long as its worker is awake; after that, it has
    /// a doorbell.
    #[inline]
    pub fn any_doorbell(&self) -> bool {
        self.0.doorbells() > 0
    }

    /// Polls one slice of the entries; returns true if there was a hit.
    #[inline]
    pub(crate) fn scan(&self, call: InCall<'_>) -> bool {
        if !self.any_polled() && !self.any_doorbell() {
            return false;
        }
        let scan = self.0.scan(ThisThread::of(call), SLICE, |watcher| watcher.wake(call));
        matches!(scan, Scan::Done { hits: 1.., .. })
    }

    /// Polls all entries, even during a scan by another thread; returns true if there was a hit.
    pub fn scan_all(&self, call: InCall<'_>) -> bool {
        self.0.scan_all(ThisThread::of(call), |watcher| watcher.wake(call)) > 0
    }

    /// Resumes the fibers that wait to be notified of the word at `address`, if their conditions
    /// hold; returns their number.
    pub fn notify(&self, call: InCall<'_>, address: usize) -> usize {
        self.0.notify(ThisThread::of(call), address, |watcher| watcher.wake(call))
    }

    /// Lists `entry`, for a waiter that has further objects to wait for.
    ///
    /// # Safety
    ///
    /// As for [`WatchTable::insert`].
    pub unsafe fn insert(&self, call: InCall<'_>, entry: &WatchEntry<Watcher>) {
        // SAFETY: passed on to the caller.
        unsafe { self.0.insert(ThisThread::of(call), NonNull::from(entry)) };
    }

    /// Ends the watch of `entry`.
    ///
    /// # Safety
    ///
    /// As for [`WatchTable::remove`].
    pub unsafe fn remove(&self, call: InCall<'_>, entry: &WatchEntry<Watcher>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.remove(ThisThread::of(call), NonNull::from(entry)) }
    }

    /// Lists `entry` and waits until it is hit, unless `seen_before` returns a value. Returns
    /// `None` if the deadline has passed first.
    ///
    /// # Safety
    ///
    /// `entry` is new, and the caller borrows the words that it looks at.
    pub unsafe fn wait(
        &self,
        call: InCall<'_>,
        fiber: &ControlBlock,
        entry: &WatchEntry<Watcher>,
        seen_before: impl FnOnce() -> Option<u64>,
        target: WaitTarget,
        deadline: Deadline,
    ) -> Option<u64> {
        // SAFETY: the entry is new; entry and word outlive the watch, which ends in `leave` below,
        // or by the hit after which this fiber is woken.
        unsafe { self.insert(call, entry) };
        if let Some(value) = seen_before() {
            let _ = self.leave(call, entry, fiber);
            return Some(value);
        }
        let wait = || suspend::wait_until(call, fiber, deadline);
        match fiber.waiting_for(target, wait) {
            Resumed::Woken => seen_by(entry),
            _ if self.leave(call, entry, fiber) == Unlinked::AlreadyGone => seen_by(entry),
            Resumed::Cancelled => unwind::raise_now(fiber),
            Resumed::TimedOut => None,
        }
    }

    /// Ends a watch of `fiber`, the caller. If it was hit meanwhile, waits for the wake that is on
    /// its way.
    fn leave(
        &self,
        call: InCall<'_>,
        entry: &WatchEntry<Watcher>,
        fiber: &ControlBlock,
    ) -> Unlinked {
        // SAFETY: the entry is alive, and this is its table.
        let unlinked = unsafe { self.remove(call, entry) };
        if unlinked == Unlinked::AlreadyGone {
            suspend::absorb_wake(call, fiber);
        }
        unlinked
    }
}

impl Source for Watches {
    fn poll(&self, by: &Worker, round: Round) -> bool {
        let slices = round.slices(self.0.sampled().div_ceil(SLICE));
        let hit = by.scan_slices(slices, || self.scan(InCall::agent(by)));
        if hit {
            by.counters.watch_hits.add(1);
        }
        hit
    }

    fn is_polled(&self) -> bool {
        self.any_polled()
    }

    fn has_peer_elsewhere(&self) -> bool {
        self.0.elsewhere() > 0
    }

    fn may_be_polled_elsewhere(&self) -> bool {
        true
    }
}

/// Returns the value that met the condition of an entry that was hit.
fn seen_by(entry: &WatchEntry<Watcher>) -> Option<u64> {
    let EntryState::Hit(seen) = entry.state() else { unreachable!("woken without a hit") };
    Some(seen)
}
