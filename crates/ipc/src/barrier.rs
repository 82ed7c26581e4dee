//! Meetings of parties of several processes.

use std::fmt;

use daiko_core::robust::{BarrierLook, BarrierPlace, RobustBarrier};
use daiko_rt::Deadline;

use super::kind;
use super::placed::{LINES, Placed, Shape, Waited, sit_down, stand_up};
use super::wait::At;
use crate::atomic::{AtomicU32, Ordering};
use crate::{Segment, SegmentError};

/// A point where a fixed number of parties wait for each other, again and again: fibers and threads
/// of any processes.
///
/// [`party`](Self::party) gives out the places of the parties. A place belongs to one fiber or
/// thread at a time. It is free again where it is dropped, and where its process dies: then the
/// next party goes on from there, in the round that the earlier one has reached.
///
/// # Deaths
///
/// An arrival counts, though its party dies since. A wait for a party that died before it arrived
/// ends with [`BarrierError::Died`], which names its process, for all parties that wait; a party
/// that was dropped ends it with [`BarrierError::Left`]. The waiters have arrived nevertheless:
/// once another process has taken the place, each goes on to wait in the same round by a further
/// call.
/// A place that never had a party is waited for.
///
/// A party has also arrived if its wait ends by its timeout. While a process is stopped (SIGSTOP)
/// before it arrives, the rest of the parties wait.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Barrier, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// // In each of 3 processes; here in 3 threads.
/// let parties: Vec<_> = (0..3)
///     .map(|_| {
///         let barrier = Barrier::open_or_create(&segment, "phase", 3).unwrap();
///         std::thread::spawn(move || {
///             let mut party = barrier.party().unwrap();
///             (0..10).filter(|_| party.wait().unwrap().is_leader()).count()
///         })
///     })
///     .collect();
/// let led: usize = parties.into_iter().map(|party| party.join().unwrap()).sum();
/// assert_eq!(led, 10);
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
#[derive(Clone)]
pub struct Barrier {
    placed: Placed<BarrierShape>,
}

/// ```text
/// 0      Words
/// 128    places, 16 bytes each
/// ..     ids of their processes, 4 bytes each
/// ```
#[derive(Clone, Copy)]
struct BarrierShape {
    parties: u32,
}

type BarrierWords = Waited<RobustBarrier>;
const _: () = assert!(size_of::<BarrierWords>() == LINES);

const _: () = assert!(Barrier::MAX_PARTIES == 4096, "as its limits say");

impl BarrierShape {
    fn pids(self) -> usize {
        LINES + self.parties as usize * size_of::<BarrierPlace>()
    }
}

impl Shape for BarrierShape {
    const KIND: u32 = kind::BARRIER;
    const IS: &'static str = "a barrier";
    const LIMITS: &'static str = "1 to 4096 parties";

    fn of([parties, ..]: [u32; 4]) -> Option<Self> {
        (1..=Barrier::MAX_PARTIES).contains(&parties).then_some(BarrierShape { parties })
    }

    fn chosen(self) -> [u32; 4] {
        [self.parties, 0, 0, 0]
    }

    fn bytes(self) -> Option<usize> {
        Some(self.pids() + self.parties as usize * size_of::<AtomicU32>())
    }
}

/// Result of [`BarrierParty::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns true for one party of each round: the one that found it complete. If it is killed
    /// right then, no party of the round is told.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

/// Reason why a round is not complete, or no place free. Each message is one line that names the
/// remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BarrierError {
    /// All places belong to live processes, or to this one.
    Taken,
    /// A party was killed, or its process ended, before it arrived.
    Died {
        /// The id of its process, in that process's own namespace.
        pid: u32,
    },
    /// A party was dropped before it arrived.
    Left {
        /// The id of its process, in that process's own namespace.
        pid: u32,
    },
    /// Not all parties have arrived in time.
    TimedOut,
    /// The segment's file was cut short.
    Truncated,
}

impl fmt::Display for BarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BarrierError::Taken => f.write_str(
                "all places of the barrier are in use; end a process that has one, or create it for more parties",
            ),
            BarrierError::Died { pid } => write!(
                f,
                "process {pid} died before it arrived at the barrier; start it again, and wait again"
            ),
            BarrierError::Left { pid } => write!(
                f,
                "process {pid} left the barrier before it arrived; start another party, and wait again"
            ),
            BarrierError::TimedOut => f.write_str(
                "not all parties arrived at the barrier in time; one may be stopped, or never started: wait again",
            ),
            BarrierError::Truncated => f.write_str(
                "the segment's file was cut short; end all its users, remove it and create it anew",
            ),
        }
    }
}

impl std::error::Error for BarrierError {}

impl Barrier {
    /// The most parties of a barrier.
    pub const MAX_PARTIES: u32 = 1 << 12;

    /// Makes a barrier for so many parties in `segment`.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it; [`SegmentError::Impossible`] if
    /// there are to be no parties, or more than [`MAX_PARTIES`](Self::MAX_PARTIES).
    pub fn create(segment: &Segment, name: &str, parties: u32) -> Result<Self, SegmentError> {
        let shape = BarrierShape::of([parties, 0, 0, 0]);
        Ok(Barrier { placed: Placed::create(segment, name, shape, |_| ())? })
    }

    /// Opens the barrier of this name, with any number of parties.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Ok(Barrier { placed: Placed::open(segment, name)? })
    }

    /// Opens the barrier of this name, and makes it if there is none. Any number of processes may
    /// do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(
        segment: &Segment,
        name: &str,
        parties: u32,
    ) -> Result<Self, SegmentError> {
        let shape = BarrierShape::of([parties, 0, 0, 0]);
        Ok(Barrier { placed: Placed::open_or_create(segment, name, shape, |_| ())? })
    }

    /// Returns the number of parties.
    pub fn parties(&self) -> u32 {
        self.placed.shape.parties
    }

    /// Takes the place of one of the parties.
    ///
    /// # Errors
    ///
    /// [`BarrierError::Taken`] if all places belong to live parties.
    pub fn party(&self) -> Result<BarrierParty, BarrierError> {
        let segment = self.placed.segment();
        let seats = self.places().iter().map(BarrierPlace::seat);
        let place = sit_down(segment, seats).ok_or(BarrierError::Taken)?;
        // Release, here: pairs with the Acquire in `pid_of`.
        self.pids()[place].store(std::process::id(), Ordering::Release);
        let pending = self.words().word.join(&self.places()[place]);
        Ok(BarrierParty { barrier: self.clone(), place, pending })
    }

    #[inline]
    fn words(&self) -> &BarrierWords {
        self.placed.object.at(0)
    }

    #[inline]
    fn places(&self) -> &[BarrierPlace] {
        self.placed.object.slice(LINES, self.parties() as usize)
    }

    fn pids(&self) -> &[AtomicU32] {
        self.placed.object.slice(self.placed.shape.pids(), self.parties() as usize)
    }

    /// Returns the process of the last party in this place.
    fn pid_of(&self, place: usize) -> u32 {
        // Acquire: pairs with the Release in `party`.
        self.pids()[place].load(Ordering::Acquire)
    }

    fn ring(&self) {
        self.placed.segment().ring(&self.words().waiting, None);
    }
}

/// One of the parties of a [`Barrier`]; dropping it frees its place.
///
/// A place belongs to one fiber or thread at a time, and can be handed on.
pub struct BarrierParty {
    barrier: Barrier,
    place: usize,
    /// The round at which this party, or an earlier one in its place, has arrived, if its wait has
    /// ended before the round was complete.
    pending: Option<u64>,
}

impl BarrierParty {
    /// Arrives, and waits until all parties have arrived: a fiber suspends, any other thread
    /// blocks. The writes of each party before its arrival are visible to all afterwards.
    ///
    /// After an error the party has arrived. A further call goes on to wait in the same round: it
    /// returns at once if the round is complete by then, or if the dead party has no successor yet.
    ///
    /// # Errors
    ///
    /// If a party is gone: see [`Barrier`].
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`.
    pub fn wait(&mut self) -> Result<BarrierWaitResult, BarrierError> {
        self.wait_until(Deadline::NEVER)
    }

    /// Waits as [`wait`](Self::wait) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, and as [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(
        &mut self,
        timeout: impl Into<Deadline>,
    ) -> Result<BarrierWaitResult, BarrierError> {
        self.wait_until(timeout.into())
    }

    fn wait_until(&mut self, deadline: Deadline) -> Result<BarrierWaitResult, BarrierError> {
        let Self { barrier, place, pending } = self;
        let (words, places) = (barrier.words(), barrier.places());
        let round = *pending.get_or_insert_with(|| words.word.arrive(&places[*place]));
        let segment = barrier.placed.segment();
        let attempt = || {
            let look = words.word.look(places, round, |holder| segment.is_gone(holder));
            // Afterwards: a cut-off page is noticed when it is touched.
            if segment.is_truncated() {
                return Ok(Err(BarrierError::Truncated));
            }
            match look {
                BarrierLook::Complete { first } => {
                    if first {
                        barrier.ring();
                    }
                    Ok(Ok(BarrierWaitResult(first)))
                }
                BarrierLook::Missing(seen) => Err(seen),
                BarrierLook::Died(at) => Ok(Err(BarrierError::Died { pid: barrier.pid_of(at) })),
                BarrierLook::Left(at) => Ok(Err(BarrierError::Left { pid: barrier.pid_of(at) })),
            }
        };
        let at = At { segment, listeners: &words.waiting, operation: "BarrierParty::wait" };
        let met = at.any_process(deadline, attempt, |&seen| words.word.has_changed(seen));
        let met = met.unwrap_or(Err(BarrierError::TimedOut));
        if met.is_ok() {
            *pending = None;
        }
        met
    }

    /// Returns the barrier.
    pub fn barrier(&self) -> &Barrier {
        &self.barrier
    }
}

impl Drop for BarrierParty {
    fn drop(&mut self) {
        let barrier = &self.barrier;
        if stand_up(barrier.placed.segment(), barrier.places()[self.place].seat()) {
            barrier.words().word.depart();
            barrier.ring();
        }
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.parties()).finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierParty").field("place", &self.place).finish_non_exhaustive()
    }
}
