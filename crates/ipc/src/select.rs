//! Waits of fibers in segments among waits for other objects.

use std::ptr::NonNull;

use daiko_core::claim::Ticket;
use daiko_core::doorbell::Listeners;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::watch::{Notice, Probe, WatchEntry};

use super::wait::NotifiedBy;
use super::waits::SegmentWaits;
use crate::{Segment, caller};
use daiko_rt::call::InCall;
use daiko_rt::worker::Watcher;

/// A change that an attempt has found missing.
pub trait Missing: Sync {
    /// Returns the segment.
    fn segment(&self) -> &Segment;

    /// Returns the listeners that are rung for after such a change.
    fn listeners(&self) -> &Listeners;

    /// Returns true if there may be a change, so that a further attempt is due. It looks at memory
    /// alone, shortly: agents call it.
    fn is_due(&self) -> bool;
}

struct Look(Box<dyn Missing>);

impl Probe for Look {
    fn sample(&self) -> Option<u64> {
        // The attempt at a word that is gone says so.
        (self.0.is_due() || self.0.segment().is_truncated()).then_some(0)
    }
}

/// The place of a fiber that waits for a change, on the worker where the wait begins.
pub struct Place {
    entry: WatchEntry<Watcher>,
    waits: NonNull<SegmentWaits>,
    /// The entry leads to it.
    _look: Box<Look>,
}

impl Place {
    /// Creates the place of the calling fiber, with its `ticket`.
    ///
    /// # Safety
    ///
    /// As for [`ticket_id`](daiko_rt::wait::ticket_id).
    ///
    /// # Panics
    ///
    /// If the caller is not a fiber.
    pub unsafe fn new(missing: Box<dyn Missing>, ticket: &Ticket<WaiterId>) -> Self {
        let worker = caller::current().expect("a fiber runs on a worker");
        let waits = SegmentWaits::of(worker);
        let bell = waits.bell_in(worker, missing.segment());
        let notified_by = NotifiedBy::At(missing.listeners());
        let is_rung = bell.is_some_and(|bell| notified_by.reaches(bell.number));
        let notice = if is_rung { Notice::Doorbell } else { Notice::Polled };
        let look = Box::new(Look(missing));
        // SAFETY: passed on to the caller.
        let entry = WatchEntry::probing(&*look, notice, unsafe { Watcher::of_ticket(ticket) });
        Place { entry, waits: NonNull::from(waits), _look: look }
    }

    /// Lets agents look for the change.
    ///
    /// # Safety
    ///
    /// The place is new, and stays until [`leave`](Self::leave).
    pub unsafe fn enter(&self, call: InCall<'_>) {
        // SAFETY: a worker lives as long as the fibers of its runtime; the rest is passed on to the
        // caller, and the probe lives as long as the place.
        unsafe { self.waits.as_ref().watches().insert(call, &self.entry) };
    }

    /// Ends the looks, unless the change was seen before.
    ///
    /// # Safety
    ///
    /// The place was [entered](Self::enter).
    pub unsafe fn leave(&self, call: InCall<'_>) -> Unlinked {
        // SAFETY: as in `enter`.
        unsafe { self.waits.as_ref().watches().remove(call, &self.entry) }
    }
}
