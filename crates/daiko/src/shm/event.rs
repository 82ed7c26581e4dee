//! Whether something has happened, in any of several processes.

use std::fmt;

use daiko_core::robust;
use daiko_shm::{Segment, SegmentError};

use super::placed::{Placed, Shape, Waited};
use super::{kind, wait};
use crate::sync::TimedOut;
use daiko_rt::wait::Deadline;

/// Something that happens in one process, and that others wait for.
///
/// It stays set until it is [`reset`](Self::reset), and lets all go who wait or come meanwhile: a set that is taken
/// back at once is seen by all who waited before. What happened before a set happens before the return of the waits
/// that it ends.
///
/// Whoever sets it may be killed at any instruction: either it is not set, or all who wait go. If the segment's
/// file is cut short nobody is told here: [`Segment::is_truncated`] says so.
///
/// ```
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
        Some(size_of::<Words>())
    }
}

type Words = Waited<robust::Event>;

impl Event {
    /// Makes an event in `segment`, which is not set.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it.
    pub fn create(segment: &Segment, name: &str) -> Result<Event, SegmentError> {
        Ok(Event { placed: Placed::create(segment, name, EventShape, |_| ())? })
    }

    /// The event of this name.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn open(segment: &Segment, name: &str) -> Result<Event, SegmentError> {
        Ok(Event { placed: Placed::open(segment, name)? })
    }

    /// The event of this name, which is made if there is none. Any number of processes may do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(segment: &Segment, name: &str) -> Result<Event, SegmentError> {
        Ok(Event { placed: Placed::open_or_create(segment, name, EventShape, |_| ())? })
    }

    #[inline]
    fn words(&self) -> &Words {
        self.placed.object.at(0)
    }

    /// Says that it has happened: lets all go who wait.
    #[inline]
    pub fn set(&self) {
        let words = self.words();
        words.word.set();
        self.placed.segment().ring(&words.waiting, None);
    }

    /// Takes back that it has happened. Of all who do so after one set, one is told true. Who waited when it was set
    /// goes, even if he has not run yet.
    #[inline]
    pub fn reset(&self) -> bool {
        self.words().word.reset()
    }

    /// Whether it is set, in the eyes of whoever asks.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.words().word.is_set()
    }

    /// Waits until it is set: a fiber suspends, any other thread blocks.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    #[inline]
    pub fn wait(&self) {
        let _ = self.wait_until(Deadline::NEVER);
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
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
        let Words { word, waiting } = self.words();
        if word.is_set() {
            return Ok(());
        }
        // All who wait go at a set, so none of them queues behind another of this process.
        let seen = word.look();
        let has_come = || if word.has_come(seen) { Ok(()) } else { Err(()) };
        let at =
            wait::At { segment: self.placed.segment(), listeners: waiting, what: "Event::wait" };
        at.anybody(deadline, has_come, |()| word.has_come(seen)).map_err(|()| TimedOut)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("set", &self.is_set()).finish_non_exhaustive()
    }
}
