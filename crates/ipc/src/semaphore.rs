//! Permits that processes share.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::atomic::{AtomicUsize, Ordering};
use crate::{Segment, SegmentError};
use daiko_core::robust::{self, Acquire, SeenWord};

use super::gate::Gate;
use super::kind;
use super::placed::{LINES, Placed, Shape, Waited};
use super::wait::At;
use daiko_rt::{Deadline, TimedOut};

/// A number of permits, each of which is free or belongs to one process.
///
/// A fiber that has to wait for a permit suspends, any other thread blocks. The waiters of one
/// process are served in FIFO order, though a new caller may be faster; between processes the
/// first to come takes the permit. Permits are acquired one by one: a caller that needs several at
/// once takes them under a [`Mutex`](super::Mutex).
///
/// The permits of a process that dies are free again as soon as another process needs them. A
/// permit that was [forgotten](Permit::forget), to go to another process with a message, has no
/// owner, and no death brings it back.
///
/// If the segment's file is cut short, no error is reported here: [`Segment::is_truncated`] says
/// so.
///
/// Each permit takes 8 bytes, and if none is free each is looked at: it is meant for up to
/// hundreds.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Segment, Semaphore};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let doors = Semaphore::create(&segment, "doors", 2)?;
/// let guests: Vec<_> = (0..10)
///     .map(|_| {
///         let doors = doors.clone();
///         std::thread::spawn(move || drop(doors.acquire()))
///     })
///     .collect();
/// guests.into_iter().for_each(|guest| guest.join().unwrap());
/// assert_eq!(doors.available_permits(), 2);
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
#[derive(Clone)]
pub struct Semaphore {
    placed: Placed<SemaphoreShape>,
    local: Arc<Local>,
}

const _: () = assert!(Semaphore::MAX_PERMITS == 65536, "as its limits say");

/// Private state of this process for a semaphore.
struct Local {
    /// Held by the waiter in the segment; the other waiters of the process wait behind it.
    gate: Gate<()>,
    /// Place where a permit was found before.
    first: AtomicUsize,
}

/// ```text
/// 0      Words
/// 128    permits, 8 bytes each
/// ```
#[derive(Clone, Copy)]
struct SemaphoreShape {
    permits: u32,
}

type SemaphoreWords = Waited<robust::RobustSemaphore>;
const _: () = assert!(size_of::<SemaphoreWords>() == LINES);

impl Shape for SemaphoreShape {
    const KIND: u32 = kind::SEMAPHORE;
    const IS: &'static str = "a semaphore";
    const LIMITS: &'static str = "1 to 65536 permits";

    fn of([permits, ..]: [u32; 4]) -> Option<Self> {
        (1..=Semaphore::MAX_PERMITS).contains(&permits).then_some(SemaphoreShape { permits })
    }

    fn chosen(self) -> [u32; 4] {
        [self.permits, 0, 0, 0]
    }

    fn bytes(self) -> Option<usize> {
        Some(LINES + self.permits as usize * size_of::<robust::RobustPermit>())
    }
}

/// A permit of a [`Semaphore`]; dropping it gives it back.
#[must_use = "a permit is given back where this is dropped"]
#[clippy::has_significant_drop]
pub struct Permit<'s> {
    semaphore: &'s Semaphore,
    number: usize,
}

impl Semaphore {
    /// The most permits of a semaphore.
    pub const MAX_PERMITS: u32 = 1 << 16;

    /// Makes a semaphore with so many permits in `segment`, all of them free.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it; [`SegmentError::Impossible`] if
    /// there are to be no permits, or more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    pub fn create(segment: &Segment, name: &str, permits: u32) -> Result<Self, SegmentError> {
        Self::of(
            Placed::create(segment, name, SemaphoreShape::of([permits, 0, 0, 0]), |_| ())?,
            name,
        )
    }

    /// Opens the semaphore of this name, with any number of permits.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Self::of(Placed::open(segment, name)?, name)
    }

    /// Opens the semaphore of this name, and makes it if there is none. Any number of processes
    /// may do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(
        segment: &Segment,
        name: &str,
        permits: u32,
    ) -> Result<Self, SegmentError> {
        Self::of(
            Placed::open_or_create(segment, name, SemaphoreShape::of([permits, 0, 0, 0]), |_| ())?,
            name,
        )
    }

    fn of(placed: Placed<SemaphoreShape>, name: &str) -> Result<Self, SegmentError> {
        let local =
            placed.private(name, || Local { gate: Gate::new(()), first: AtomicUsize::new(0) })?;
        Ok(Semaphore { placed, local })
    }

    /// Waits for a permit.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`.
    #[inline]
    pub fn acquire(&self) -> Permit<'_> {
        match self.try_acquire() {
            Some(permit) => permit,
            None => self.acquire_slow(Deadline::NEVER).expect("it waits for ever"),
        }
    }

    /// Acquires as [`acquire`](Self::acquire) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_timeout(&self, timeout: impl Into<Deadline>) -> Result<Permit<'_>, TimedOut> {
        match self.try_acquire() {
            Some(permit) => Ok(permit),
            None => self.acquire_slow(timeout.into()),
        }
    }

    /// Takes a permit if one is free, even ahead of waiters.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        let acquired = self.attempt();
        if acquired.is_err() {
            // So that a caller that tries again and again learns of deaths, too.
            self.placed.segment().watch_all();
        }
        acquired.ok()
    }

    #[cold]
    fn acquire_slow(&self, deadline: Deadline) -> Result<Permit<'_>, TimedOut> {
        let _gate = self.local.gate.pass_until(deadline).ok_or(TimedOut)?;
        let SemaphoreWords { word, waiting } = self.words();
        let (segment, operation) = (self.placed.segment(), "Semaphore::acquire");
        // Each waiter learns of deaths by itself, so that no process needs to sweep for another.
        let permit = At { segment, listeners: waiting, operation }.any_process(
            deadline,
            || self.attempt(),
            |&seen| word.has_changed(seen),
        );
        permit.map_err(|_| TimedOut)
    }

    #[inline]
    fn attempt(&self) -> Result<Permit<'_>, SeenWord> {
        let (segment, first) = (self.placed.segment(), &self.local.first);
        let begin = first.load(Ordering::Relaxed);
        let is_dead = |holder| segment.is_gone(holder);
        match self.words().word.try_acquire(segment.me(), self.permits(), begin, is_dead) {
            Acquire::Acquired(number) => {
                first.store(number, Ordering::Relaxed);
                Ok(Permit { semaphore: self, number })
            }
            Acquire::Exhausted(seen) => Err(seen),
        }
    }

    /// Adopts a permit by its number, after it was [forgotten](Permit::forget); `None` if it is no
    /// such permit, or another process has it.
    pub fn adopt(&self, number: u32) -> Option<Permit<'_>> {
        let (me, number) = (self.placed.segment().me(), number as usize);
        let adopted = self.words().word.adopt(me, self.permits(), number);
        adopted.then(|| Permit { semaphore: self, number })
    }

    /// Frees a permit that was [forgotten](Permit::forget); returns false if it is no such permit.
    #[must_use = "a permit that was not forgotten, or was found already, is not adopted"]
    pub fn add_permit(&self, number: u32) -> bool {
        let added = self.words().word.add(self.permits(), number as usize);
        if added {
            self.ring();
        }
        added
    }

    /// Returns how many permits it has, free or not.
    pub fn permits_in_all(&self) -> u32 {
        self.placed.shape.permits
    }

    /// Returns how many permits are free, or of dead processes, in the eyes of the caller.
    pub fn available_permits(&self) -> u32 {
        let segment = self.placed.segment();
        segment.watch_all();
        let free = |permit: &&robust::RobustPermit| {
            permit.is_free() || permit.holder().is_some_and(|holder| segment.is_gone(holder))
        };
        self.permits().iter().filter(free).count() as u32
    }

    /// Gives the permit of this number back, for code that keeps permits as numbers. Returns false
    /// if this process does not hold it.
    #[doc(hidden)]
    #[must_use = "a permit that this process does not hold is not given back"]
    pub fn give_back(&self, number: u32) -> bool {
        let me = self.placed.segment().me();
        let given = self.words().word.give_back(me, self.permits(), number as usize);
        if given {
            self.ring();
        }
        given
    }

    #[inline]
    fn words(&self) -> &SemaphoreWords {
        self.placed.object.at(0)
    }

    #[inline]
    fn permits(&self) -> &[robust::RobustPermit] {
        self.placed.object.slice(LINES, self.placed.shape.permits as usize)
    }

    fn ring(&self) {
        self.placed.segment().ring(&self.words().waiting, None);
    }
}

impl Permit<'_> {
    /// Returns the number of the permit, for [`Semaphore::give_back`]. The process keeps the permit
    /// if this value is forgotten.
    #[doc(hidden)]
    pub fn number(&self) -> u32 {
        self.number as u32
    }

    /// Gives the permit up without freeing it: its number goes to another process, which
    /// [adopts](Semaphore::adopt) it or [gives it back](Semaphore::add_permit). If the number is
    /// lost, so is the permit, as long as the segment exists.
    #[must_use = "without its number the permit is lost"]
    pub fn forget(self) -> u32 {
        let this = ManuallyDrop::new(self);
        let semaphore = this.semaphore;
        let me = semaphore.placed.segment().me();
        // If it is not this process's, a peer has taken it.
        let _ = semaphore.words().word.forget(me, semaphore.permits(), this.number);
        this.number as u32
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        let me = self.semaphore.placed.segment().me();
        if self.semaphore.words().word.give_back(me, self.semaphore.permits(), self.number) {
            self.semaphore.ring();
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available_permits", &self.available_permits())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("number", &self.number).finish_non_exhaustive()
    }
}
