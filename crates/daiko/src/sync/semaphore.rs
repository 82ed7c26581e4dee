//! Counted permits.

use std::fmt;
use std::time::{Duration, Instant};

use daiko_core::fiber::WaiterId;
use daiko_core::semaphore::{MAX_PERMITS, RawSemaphore};

use super::{TimedOut, permits};
use crate::deadlock::Kind;
use crate::process;
use crate::wait::Deadline;

/// A number of permits, of which each is somebody's or nobody's.
///
/// A fiber that has to wait for permits suspends, any other thread blocks. Who waits is served in
/// turn: nobody is overtaken, so that who wants many permits gets them.
///
/// ```
/// use daiko::sync::Semaphore;
/// use std::sync::Arc;
///
/// daiko::run(|| {
///     let doors = Arc::new(Semaphore::new(2));
///     let guests: Vec<_> = (0..10)
///         .map(|_| {
///             let doors = Arc::clone(&doors);
///             daiko::spawn(move || {
///                 let _permit = doors.acquire();
///                 daiko::yield_now();
///             })
///         })
///         .collect();
///     guests.into_iter().for_each(|guest| guest.join().unwrap());
///     assert_eq!(doors.available_permits(), 2);
/// });
/// ```
pub struct Semaphore {
    raw: RawSemaphore<WaiterId>,
}

const _: () = assert!(size_of::<Semaphore>() == 16);

/// What messages call a wait.
const WHAT: &(Kind, &str) = &(Kind::Semaphore, "Semaphore::acquire");

/// Permits of a [`Semaphore`]; dropping it gives them back.
#[must_use = "permits are given back where this is dropped"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct Permit<'s> {
    semaphore: &'s Semaphore,
    count: u32,
}

impl Semaphore {
    /// The most permits that a semaphore has at a time.
    pub const MAX_PERMITS: u32 = MAX_PERMITS;

    /// A semaphore with so many permits.
    ///
    /// # Panics
    ///
    /// If they are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    pub const fn new(permits: u32) -> Self {
        assert!(permits <= MAX_PERMITS, "daiko: more permits than Semaphore::MAX_PERMITS");
        Semaphore { raw: RawSemaphore::new(permits) }
    }

    /// Waits for a permit.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    #[inline]
    pub fn acquire(&self) -> Permit<'_> {
        self.acquire_many(1)
    }

    /// Waits for `count` permits at once. Who wants one waits behind who wants many.
    ///
    /// It waits for ever for more permits than will ever be there.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    #[inline]
    pub fn acquire_many(&self, count: u32) -> Permit<'_> {
        let _ = permits::acquire(&self.raw, count, WHAT, || Deadline::NEVER);
        Permit { semaphore: self, count }
    }

    /// As [`acquire_many`](Self::acquire_many), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_timeout(&self, count: u32, timeout: Duration) -> Result<Permit<'_>, TimedOut> {
        self.acquire_until(count, || Deadline::after(timeout))
    }

    /// As [`acquire_many`](Self::acquire_many), until `deadline` at most.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_deadline(&self, count: u32, deadline: Instant) -> Result<Permit<'_>, TimedOut> {
        self.acquire_until(count, || Deadline::at(deadline))
    }

    pub(crate) fn acquire_until(
        &self,
        count: u32,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Permit<'_>, TimedOut> {
        let acquired = permits::acquire(&self.raw, count, WHAT, deadline);
        acquired.then(|| Permit { semaphore: self, count }).ok_or(TimedOut)
    }

    /// Takes `count` permits if they are there and nobody waits before.
    pub fn try_acquire(&self, count: u32) -> Option<Permit<'_>> {
        process::shares();
        self.raw.try_acquire(count).then(|| Permit { semaphore: self, count })
    }

    /// Makes `count` more permits.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[inline]
    pub fn add_permits(&self, count: u32) {
        permits::release(&self.raw, count);
    }

    /// How many permits are nobody's, in the eyes of whoever asks.
    pub fn available_permits(&self) -> u32 {
        self.raw.available()
    }
}

impl Permit<'_> {
    /// How many permits it is.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Keeps the permits for good: they are not given back.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available_permits", &self.available_permits())
            .finish_non_exhaustive()
    }
}
