//! Traces: the events of a worker, in a ring that a reader in another process empties.
//!
//! README.md beside this file has the steps and the proof. The clock, the memory of the ring and
//! the reader's access are the caller's.

mod event;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::ptr;

pub use event::{Departure, Event, RawEvent};

use crate::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, const_fn, unless_weakened};
use crate::field;
use crate::inspect::RecorderLayout;

/// Number of events that a ring holds.
pub const RING_EVENTS: usize = if cfg!(loom) { 2 } else { 1 << 16 };

/// The memory of a ring. All zeros: an empty one.
#[repr(transparent)]
#[derive(Debug)]
pub struct Ring([[AtomicU64; 2]; RING_EVENTS]);

/// The recorder of one worker's events.
///
/// Only the worker calls it. The reader, in another process, gives credit, and takes it back when
/// it ends.
///
/// Budget of an event: three loads and three stores of lines that the worker owns.
#[repr(C)]
#[derive(Debug)]
pub struct Recorder {
    /// Number of events recorded so far. Written by the worker.
    recorded: AtomicU64,
    /// The number at which the reader's credit ends. Written by the reader.
    credit_end: AtomicU64,
    /// The ring; null: none yet. Written by the worker.
    ring: AtomicPtr<Ring>,
    /// The process id of the reader; 0: none. Written by the reader.
    reader: AtomicU64,
    /// True if there was no memory for the ring. Written by the worker.
    is_refused: AtomicU32,
}

impl Recorder {
    /// Its layout, for readers.
    pub const LAYOUT: RecorderLayout = RecorderLayout {
        recorded: field!(Recorder, recorded),
        credit_end: field!(Recorder, credit_end),
        ring: field!(Recorder, ring),
        reader: field!(Recorder, reader),
        is_refused: field!(Recorder, is_refused),
        ring_events: RING_EVENTS as u64,
    };

    const_fn! {
        /// A recorder without a ring.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Recorder {
                recorded: AtomicU64::new(0),
                credit_end: AtomicU64::new(0),
                ring: AtomicPtr::new(ptr::null_mut()),
                reader: AtomicU64::new(0),
                is_refused: AtomicU32::new(0),
            }
        }
    }

    /// Returns true if there is a reader, and neither a ring nor a refusal yet.
    #[inline]
    pub fn needs_ring(&self) -> bool {
        self.has_reader()
            && self.ring.load(Ordering::Relaxed).is_null()
            && self.is_refused.load(Ordering::Relaxed) == 0
    }

    /// Returns true if there is a reader: it may write its words at any time.
    pub fn has_reader(&self) -> bool {
        self.reader.load(Ordering::Relaxed) != 0
    }

    /// Gives it memory for a ring: zeros, which live as long as the recorder is in use.
    pub fn set_ring(&self, ring: *mut Ring) {
        // Release: pairs with the reader's system call that reads the pointer: it finds zeros.
        self.ring.store(ring, Ordering::Release);
    }

    /// Notes that there is no memory for a ring.
    pub fn refuse_ring(&self) {
        self.is_refused.store(1, Ordering::Relaxed);
    }

    /// Returns the ring, for its owner to free.
    #[inline]
    pub fn ring(&self) -> *mut Ring {
        self.ring.load(Ordering::Relaxed)
    }

    /// Returns true if there is a ring, and credit for another event.
    #[inline]
    pub fn has_credit(&self) -> bool {
        // Acquire: pairs with the reader's system call that writes it, behind the one that has read
        // the events which are overwritten now.
        let end = self.credit_end.load(Ordering::Acquire);
        self.recorded.load(Ordering::Relaxed) < end && !self.ring().is_null()
    }

    /// Records the events. Returns false, and records none, if the credit does not last for them.
    ///
    /// # Safety
    ///
    /// The ring, if there is one, is alive. Only the worker calls.
    #[inline(always)]
    pub unsafe fn record(&self, events: &[RawEvent]) -> bool {
        // Acquire: as above.
        let end = self.credit_end.load(Ordering::Acquire);
        let first = self.recorded.load(Ordering::Relaxed);
        let ring = self.ring();
        let Some(after) = first.checked_add(events.len() as u64) else { return false };
        if after > end || ring.is_null() {
            return false;
        }
        for (number, event) in (first..after).zip(events) {
            // SAFETY: alive, by this function's contract.
            let slot = unsafe { &(*ring).0[number as usize % RING_EVENTS] };
            // Relaxed: the count publishes them.
            slot[0].store(event.0[0], Ordering::Relaxed);
            slot[1].store(event.0[1], Ordering::Relaxed);
        }
        // Release: pairs with the reader's system call that reads the count, before the events.
        self.recorded.store(after, unless_weakened!("trace-recorded", Ordering::Release));
        true
    }
}

/// The part of a ring that a reader has not taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The number of the first event.
    pub first: u64,
    /// Number of events.
    pub len: u64,
}

/// The reader's account of one ring.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    taken: u64,
    credit_end: u64,
}

impl Cursor {
    /// Begins behind the events recorded so far.
    pub fn new(recorded: u64) -> Self {
        Cursor { taken: recorded, credit_end: recorded }
    }

    /// Returns the events to take, given the count that has just been read. `None`: the count is
    /// beyond the credit, so another process gives credit as well.
    pub fn unread(&self, recorded: u64) -> Option<Unread> {
        (self.taken..=self.credit_end)
            .contains(&recorded)
            .then(|| Unread { first: self.taken, len: recorded - self.taken })
    }

    /// Returns true if the worker has used up its credit, so that later events may be missing.
    pub fn is_exhausted(&self, recorded: u64) -> bool {
        recorded == self.credit_end
    }

    /// Notes that the events are taken out of the ring, which holds so many. Returns the number at
    /// which the new credit ends.
    pub fn take(&mut self, unread: Unread, ring_events: u64) -> u64 {
        self.taken = unread.first + unread.len;
        self.credit_end = self.taken.saturating_add(ring_events);
        self.credit_end
    }
}
