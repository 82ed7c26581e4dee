//! Calls that one process makes for all.

use std::fmt;
use std::sync::Arc;

use crate::{Cause, Segment, SegmentError, Shared};
use daiko_core::robust::{FoundData, Lock, RobustEvent, RobustMutex};
use daiko_rt::{Deadline, TimedOut};

use super::gate::Gate;
use super::kind;
use super::placed::{Placed, Shape, Waited};
use super::wait::At;
use super::word::{MutexAt, Poise};

/// A closure that one fiber or thread of one process runs, once for all processes: to prepare the
/// objects of a segment.
///
/// The callers of one process queue in FIFO order; between processes the first to come runs its
/// closure. A fiber that has to wait suspends, any other thread blocks. Once a closure has
/// completed, a call costs a load, and all writes of the closure are visible.
///
/// # Deaths and panics
///
/// If a process dies while its closure runs, the next caller runs its own instead, and can query
/// that: [`OnceState::cause`]. It finds the half of the work that the dead closure has done, so a
/// closure begins by putting that in order. The same holds if a closure panics; if it is cancelled,
/// the next caller runs its own, and finds no cause.
///
/// While a process is stopped (SIGSTOP) in its closure, the other callers wait.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Mutex, Once, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let total = Mutex::create(&segment, "total", 0u64)?;
/// // In each process; here in some threads.
/// let users: Vec<_> = (0..4)
///     .map(|_| {
///         let (segment, total) = (segment.clone(), total.clone());
///         std::thread::spawn(move || {
///             let prepared = Once::open_or_create(&segment, "prepared").unwrap();
///             prepared.call_once(|| *total.lock().unwrap() += 100);
///             assert!(prepared.is_completed());
///         })
///     })
///     .collect();
/// users.into_iter().for_each(|user| user.join().unwrap());
/// assert_eq!(*total.lock().unwrap(), 100);
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
#[derive(Clone)]
pub struct Once {
    placed: Placed<OnceShape>,
    /// Held by the caller that runs its closure or waits in the segment; the other callers of this
    /// process wait behind it.
    gate: Arc<Gate<()>>,
}

/// All are alike.
#[derive(Clone, Copy)]
struct OnceShape;

impl Shape for OnceShape {
    const KIND: u32 = kind::ONCE;
    const IS: &'static str = "a once";

    fn of(_: [u32; 4]) -> Option<Self> {
        Some(OnceShape)
    }

    fn chosen(self) -> [u32; 4] {
        [0; 4]
    }

    fn bytes(self) -> Option<usize> {
        Some(size_of::<Waited<OnceWords>>())
    }
}

#[repr(C)]
struct OnceWords {
    /// Held by the caller that runs its closure.
    running: RobustMutex,
    /// Set when a closure has completed, before its caller frees the lock.
    done: RobustEvent,
}

// SAFETY: `Shared` values beside each other.
unsafe impl Shared for OnceWords {}

/// The state that a closure finds: see [`Once::call_once_force`].
#[derive(Clone, Copy, Debug)]
pub struct OnceState {
    cause: Option<Cause>,
}

impl OnceState {
    /// Returns the reason why an earlier closure has not completed, if there was one: its process
    /// died, or it panicked; or the file of the segment was cut short.
    pub fn cause(&self) -> Option<Cause> {
        self.cause
    }
}

impl Once {
    /// Makes an object in `segment` for which no closure has run.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it.
    pub fn create(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Self::of(Placed::create(segment, name, OnceShape, |_| ())?, name)
    }

    /// Opens the object of this name.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Self::of(Placed::open(segment, name)?, name)
    }

    /// Opens the object of this name, and makes it if there is none. Any number of processes may
    /// do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Self::of(Placed::open_or_create(segment, name, OnceShape, |_| ())?, name)
    }

    fn of(placed: Placed<OnceShape>, name: &str) -> Result<Self, SegmentError> {
        let gate = placed.private(name, || Gate::new(()))?;
        Ok(Once { placed, gate })
    }

    #[inline]
    fn words(&self) -> &Waited<OnceWords> {
        self.placed.object.at(0)
    }

    /// Returns true if a closure has completed; its effects are then visible to the caller.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.words().word.done.is_set()
    }

    /// Runs `init`, unless it or another closure has completed here; waits for a closure that is
    /// running.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`; or for itself, where locks are tracked (see `sync::Mutex`): elsewhere a
    /// closure that calls its own object waits for ever.
    #[inline]
    #[track_caller]
    pub fn call_once(&self, init: impl FnOnce()) {
        self.call_once_force(|_| init());
    }

    /// Runs `init` as [`call_once`](Self::call_once) does, and tells it of an earlier closure that
    /// has not completed.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    #[inline]
    #[track_caller]
    pub fn call_once_force(&self, init: impl FnOnce(&OnceState)) {
        let _ = self.call(Deadline::NEVER, init);
    }

    /// Runs `init` as [`call_once_force`](Self::call_once_force) does, but waits for another
    /// closure for at most `timeout`. The time that `init` itself takes does not count.
    ///
    /// # Errors
    ///
    /// If the time is over; `init` was not run.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    #[track_caller]
    pub fn call_once_force_timeout(
        &self,
        timeout: impl Into<Deadline>,
        init: impl FnOnce(&OnceState),
    ) -> Result<(), TimedOut> {
        self.call(timeout.into(), init)
    }

    #[inline]
    #[track_caller]
    fn call(&self, deadline: Deadline, init: impl FnOnce(&OnceState)) -> Result<(), TimedOut> {
        if self.is_completed() { Ok(()) } else { self.call_slow(deadline, init) }
    }

    #[cold]
    #[track_caller]
    fn call_slow(&self, deadline: Deadline, init: impl FnOnce(&OnceState)) -> Result<(), TimedOut> {
        let _gate = self.gate.pass_until(deadline).ok_or(TimedOut)?;
        let Some(found) = self.begin(deadline)? else { return Ok(()) };
        let running = Running { once: self, poise: Poise::of_caller(), is_done: false };
        let cause = Cause::of(found, self.placed.segment().is_truncated());
        init(&OnceState { cause });
        running.complete();
        Ok(())
    }

    /// Takes the right to run a closure; `None`: one has completed.
    fn begin(&self, deadline: Deadline) -> Result<Option<FoundData>, TimedOut> {
        let mut in_time = true;
        loop {
            if self.is_completed() {
                return Ok(None);
            }
            match self.running().attempt() {
                // The last one may have completed between the look and the attempt.
                Lock::Locked(_) if self.is_completed() => {
                    self.running().unlock(false);
                    return Ok(None);
                }
                Lock::Locked(found) => return Ok(Some(found)),
                _ if !in_time => return Err(TimedOut),
                tried => {
                    let completed = || self.is_completed();
                    in_time = self.running().wait_after_or(tried, deadline, completed);
                }
            }
        }
    }

    fn running(&self) -> MutexAt<'_> {
        let Waited { word, waiting } = self.words();
        let at =
            At { segment: self.placed.segment(), listeners: waiting, operation: "Once::call_once" };
        MutexAt { word: &word.running, at }
    }
}

/// The right to run a closure, which ends with the closure.
struct Running<'o> {
    once: &'o Once,
    poise: Poise,
    is_done: bool,
}

impl Running<'_> {
    fn complete(mut self) {
        self.once.words().word.done.set();
        // A caller that is stopped now keeps no waiter.
        self.once.running().at.ring();
        self.is_done = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_done {
            // Nothing is left in disorder.
            self.once.words().word.running.clear_poison();
        }
        self.once.running().unlock(self.poise.is_lost());
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}
