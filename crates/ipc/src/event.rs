//! Events that any of several processes may set.

use std::fmt;

use crate::{Segment, SegmentError};
use daiko_core::doorbell::Listeners;
use daiko_core::robust::{self, SeenWord};

use super::placed::{Placed, Shape, Waited};
use super::select::Missing;
use super::wait::Membership;
use super::{kind, wait};
use daiko_rt::Deadline;
use daiko_rt::TimedOut;

/// An event that happens in one process, and that other processes wait for.
///
/// It stays set until it is [`reset`](Self::reset), and releases all present and later waiters: a
/// set that is taken back at once is seen by all earlier waiters. Writes before a set happen
/// before the return of the waits that it ends.
///
/// The setting process may be killed at any instruction: either the event is not set, or all
/// waiters are released. If the segment's file is cut short, no error is reported here:
/// [`Segment::is_truncated`] says so.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Event, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let ready = Event::create(&segment, "ready")?;
/// let here_too = Event::open(&segment, "ready")?;
/// let waits = std::thread::spawn(move || here_too.wait());
/// ready.set();
/// waits.join().unwrap();
/// assert!(ready.is_set() && ready.reset() && !ready.reset());
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
#[derive(Clone)]
pub struct Event {
    placed: Placed<EventShape>,
}

/// All are alike.
#[derive(Clone, Copy)]
struct EventShape;

impl Shape for EventShape {
    const KIND: u32 = kind::EVENT;
    const IS: &'static str = "an event";

    fn of(_: [u32; 4]) -> Option<Self> {
        Some(EventShape)
    }

    fn chosen(self) -> [u32; 4] {
        [0; 4]
    }

    fn bytes(self) -> Option<usize> {
        Some(size_of::<EventWords>())
    }
}

type EventWords = Waited<robust::RobustEvent>;

impl Event {
    /// Makes an event in `segment`, which is not set.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it.
    pub fn create(segment: &Segment, name: &str) -> Result<Event, SegmentError> {
        Ok(Event { placed: Placed::create(segment, name, EventShape, |_| ())? })
    }

    /// Opens the event of this name.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn open(segment: &Segment, name: &str) -> Result<Event, SegmentError> {
        Ok(Event { placed: Placed::open(segment, name)? })
    }

    /// Opens the event of this name, and makes it if there is none. Any number of processes may do
    /// this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(segment: &Segment, name: &str) -> Result<Event, SegmentError> {
        Ok(Event { placed: Placed::open_or_create(segment, name, EventShape, |_| ())? })
    }

    #[inline]
    fn words(&self) -> &EventWords {
        self.placed.object.at(0)
    }

    /// Sets the event, and releases all waiters.
    #[inline]
    pub fn set(&self) {
        let words = self.words();
        words.word.set();
        self.placed.segment().ring(&words.waiting, None);
    }

    /// Resets the event. Of all callers after one set, one gets true. A waiter that was there at
    /// the set is released, even if it has not run yet.
    #[inline]
    pub fn reset(&self) -> bool {
        self.words().word.reset()
    }

    /// Returns true if it is set, in the eyes of the caller.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.words().word.is_set()
    }

    /// Waits until it is set: a fiber suspends, any other thread blocks.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`.
    #[inline]
    pub fn wait(&self) {
        let _ = self.wait_until(Deadline::NEVER);
    }

    /// Waits as [`wait`](Self::wait) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&self, timeout: impl Into<Deadline>) -> Result<(), TimedOut> {
        self.wait_until(timeout.into())
    }

    fn wait_until(&self, deadline: Deadline) -> Result<(), TimedOut> {
        let EventWords { word, waiting } = self.words();
        if word.is_set() {
            return Ok(());
        }
        // A set releases all waiters, so none of them queues behind another of this process.
        let seen = word.look();
        let has_come = || if word.has_come(seen) { Ok(()) } else { Err(()) };
        let at = wait::At {
            segment: self.placed.segment(),
            listeners: waiting,
            operation: "Event::wait",
        };
        at.any_process(deadline, has_come, |()| word.has_come(seen)).map_err(|()| TimedOut)
    }
}

/// A set that has not come.
struct MissingSet {
    event: Event,
    seen: SeenWord,
    membership: Membership,
}

impl Missing for MissingSet {
    fn segment(&self) -> &Segment {
        self.event.placed.segment()
    }

    fn listeners(&self) -> &Listeners {
        &self.event.words().waiting
    }

    fn is_due(&self) -> bool {
        self.event.words().word.has_come(self.seen) || self.membership.has_changed(self.segment())
    }
}

impl Event {
    /// Returns true if it is set, or was since the first attempt with `seen`, which is none at
    /// first; otherwise the change to wait for.
    #[doc(hidden)]
    pub fn attempt(&self, seen: &mut Option<SeenWord>) -> Result<(), Box<dyn Missing>> {
        let word = &self.words().word;
        if word.is_set() {
            return Ok(());
        }
        let seen = *seen.get_or_insert_with(|| word.look());
        let membership = Membership::before_attempt(self.placed.segment());
        if word.has_come(seen) {
            return Ok(());
        }
        Err(Box::new(MissingSet { event: self.clone(), seen, membership }))
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("set", &self.is_set()).finish_non_exhaustive()
    }
}
