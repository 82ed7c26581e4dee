//! Waiting for a condition that a mutex of a segment guards.

use std::fmt;

use bytemuck::Pod;
use daiko_core::robust::{CondvarEntry, CondvarWait, RobustCondvar};
use daiko_rt::Deadline;

use super::kind;
use super::mutex::MutexGuard;
use super::placed::{LINES, Placed, Shape, Waited};
use super::poison::{LockResult, PoisonError};
use super::wait::{At, Membership};
use crate::{Segment, SegmentError};

/// A condition on the value of a [`Mutex`](super::Mutex), which fibers and threads of any process
/// wait for, and any process makes true.
///
/// A fiber that waits suspends, any other thread blocks. Waiters are notified in turn. Up to 256
/// wait with an entry of their own; the rest are woken by each notification.
///
/// # Deaths
///
/// A wait may end without a notification, above all whenever a process attaches to the segment,
/// leaves it or dies: so no waiter sleeps on because a waiter died with a notification, or because
/// a notifier died before it notified. A waiter therefore looks at the value again, in a loop, or
/// by [`wait_while`](Self::wait_while). All waiters of a condition variable wait for the same
/// condition, or are notified by [`notify_all`](Self::notify_all).
///
/// While a process is stopped (SIGSTOP), its waiters keep the notifications that they got.
///
/// A wait returns the guard as [`Mutex::lock`](super::Mutex::lock) does: if a holder died or
/// panicked, in an error with its [`Cause`](super::Cause). A cancel unwinds out of a wait without
/// the lock, and passes a notification on.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Condvar, Mutex, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let jobs = Mutex::create(&segment, "jobs", 0u32)?;
/// let more = Condvar::create(&segment, "more jobs")?;
/// // In another process; here in a thread.
/// let worker = std::thread::spawn({
///     let (jobs, more) = (jobs.clone(), more.clone());
///     move || {
///         let mut jobs = more.wait_while(jobs.lock().unwrap(), |jobs| *jobs == 0).unwrap();
///         *jobs -= 1;
///     }
/// });
/// *jobs.lock().unwrap() += 1;
/// more.notify_one();
/// worker.join().unwrap();
/// assert_eq!(*jobs.lock().unwrap(), 0);
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
#[derive(Clone)]
pub struct Condvar {
    placed: Placed<CondvarShape>,
}

/// ```text
/// 0      Words
/// 128    entries, 8 bytes each
/// ```
#[derive(Clone, Copy)]
struct CondvarShape;

type CondvarWords = Waited<RobustCondvar>;
const _: () = assert!(size_of::<CondvarWords>() == LINES);

/// Number of waiters with an entry of their own.
const ENTRIES: usize = 256;

impl Shape for CondvarShape {
    const KIND: u32 = kind::CONDVAR;
    const IS: &'static str = "a condition variable";

    fn of(_: [u32; 4]) -> Option<Self> {
        Some(CondvarShape)
    }

    fn chosen(self) -> [u32; 4] {
        [0; 4]
    }

    fn bytes(self) -> Option<usize> {
        Some(LINES + ENTRIES * size_of::<CondvarEntry>())
    }
}

/// Result of a wait with a timeout: whether the time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns true if the time was over before a notification came.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

type TimedWait<'m, T> = LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)>;

impl Condvar {
    /// Makes a condition variable in `segment`, without waiters.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it.
    pub fn create(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Ok(Condvar { placed: Placed::create(segment, name, CondvarShape, |_| ())? })
    }

    /// Opens the condition variable of this name.
    ///
    /// # Errors
    ///
    /// If there is none, or it is another kind of object.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Ok(Condvar { placed: Placed::open(segment, name)? })
    }

    /// Opens the condition variable of this name, and makes it if there is none. Any number of
    /// processes may do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Ok(Condvar { placed: Placed::open_or_create(segment, name, CondvarShape, |_| ())? })
    }

    /// Frees the lock, waits for a notification, and takes the lock again. It may also return
    /// without a notification.
    ///
    /// # Errors
    ///
    /// If a holder of the mutex died or panicked; the error has the guard.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`; then the lock is free.
    #[track_caller]
    pub fn wait<'m, T: Pod>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        self.wait_until(guard, Deadline::NEVER).0
    }

    /// Waits until `condition` is false.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_while<'m, T: Pod>(
        &self,
        mut guard: MutexGuard<'m, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'m, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`, besides the time to take the
    /// lock.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout<'m, T: Pod>(
        &self,
        guard: MutexGuard<'m, T>,
        timeout: impl Into<Deadline>,
    ) -> TimedWait<'m, T> {
        let deadline = timeout.into();
        let (locked, notified) = self.wait_until(guard, deadline);
        with(locked, WaitTimeoutResult(!notified && deadline.is_over()))
    }

    /// Waits until `condition` is false, for at most `timeout`, besides the time to take the lock.
    /// The result says whether the time was over while the condition still held.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout_while<'m, T: Pod>(
        &self,
        mut guard: MutexGuard<'m, T>,
        timeout: impl Into<Deadline>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> TimedWait<'m, T> {
        let deadline = timeout.into();
        while condition(&mut guard) {
            if deadline.is_over() {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            guard = match self.wait_until(guard, deadline).0 {
                Ok(guard) => guard,
                error => return with(error, WaitTimeoutResult(deadline.is_over())),
            };
        }
        Ok((guard, WaitTimeoutResult(false)))
    }

    /// Waits once. Returns true with the guard if a notification has come.
    #[track_caller]
    fn wait_until<'m, T: Pod>(
        &self,
        guard: MutexGuard<'m, T>,
        deadline: Deadline,
    ) -> (LockResult<MutexGuard<'m, T>>, bool) {
        let mutex = guard.mutex();
        let waiting = Waiting::enter(self);
        // Before the lock is free: a process that dies after it has taken the lock is noticed.
        let membership = Membership::before_attempt(self.segment());
        drop(guard);
        self.at().change_since(membership, deadline, || waiting.is_notified());
        let notified = waiting.leave();
        let passed_on = notified.then(|| PassedOn(self));
        let locked = mutex.lock();
        std::mem::forget(passed_on);
        (locked, notified)
    }

    /// Wakes one waiter, if there are any. The caller has changed the value under the mutex; it may
    /// hold the mutex still, and need not.
    pub fn notify_one(&self) {
        let is_dead = |holder| self.segment().is_gone(holder);
        self.words().word.notify_one(self.entries(), is_dead);
        self.at().ring();
    }

    /// Wakes all waiters, as [`notify_one`](Self::notify_one) wakes one.
    pub fn notify_all(&self) {
        self.words().word.notify_all(self.entries());
        self.at().ring();
    }

    #[inline]
    fn segment(&self) -> &Segment {
        self.placed.segment()
    }

    #[inline]
    fn words(&self) -> &CondvarWords {
        self.placed.object.at(0)
    }

    #[inline]
    fn entries(&self) -> &[CondvarEntry] {
        self.placed.object.slice(LINES, ENTRIES)
    }

    fn at(&self) -> At<'_> {
        let listeners = &self.words().waiting;
        At { segment: self.segment(), listeners, operation: "Condvar::wait" }
    }
}

/// Adds `value` to the guard of a result.
fn with<G, V>(locked: LockResult<G>, value: V) -> LockResult<(G, V)> {
    match locked {
        Ok(guard) => Ok((guard, value)),
        Err(error) => {
            let cause = error.cause();
            Err(PoisonError::new((error.into_inner(), value), cause))
        }
    }
}

/// A waiter that has entered, and leaves where this is dropped.
struct Waiting<'c> {
    condvar: &'c Condvar,
    wait: Option<CondvarWait>,
}

impl<'c> Waiting<'c> {
    fn enter(condvar: &'c Condvar) -> Self {
        let segment = condvar.segment();
        let is_dead = |holder| segment.is_gone(holder);
        let wait = condvar.words().word.enter(segment.me(), condvar.entries(), is_dead);
        Waiting { condvar, wait: Some(wait) }
    }

    fn is_notified(&self) -> bool {
        let (me, entries) = (self.condvar.segment().me(), self.condvar.entries());
        self.wait.is_none_or(|wait| self.condvar.words().word.is_notified(me, entries, wait))
    }

    /// Leaves; returns true if a notification has come.
    fn leave(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        let (me, entries) = (self.condvar.segment().me(), self.condvar.entries());
        let wait = self.wait.take();
        wait.is_some_and(|wait| self.condvar.words().word.leave(me, entries, wait))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.end() {
            drop(PassedOn(self.condvar));
        }
    }
}

/// A notification of a waiter that may be cancelled before it looks at its condition: another
/// waiter gets it then.
struct PassedOn<'c>(&'c Condvar);

impl Drop for PassedOn<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
