//! Counted permits.

use std::fmt;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::semaphore::{MAX_PERMITS, Overflow, RawSemaphore, Request};
use daiko_core::wait::Node;

use super::TimedOut;
use crate::runtime::kernel::ThisThread;
use crate::wait::{self, Deadline, Ended, Object, Waiter};

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
        if !self.raw.try_acquire(count) {
            let _ = self.acquire_slow(count, Deadline::NEVER);
        }
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

    fn acquire_until(
        &self,
        count: u32,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Permit<'_>, TimedOut> {
        let acquired = self.raw.try_acquire(count) || self.acquire_slow(count, deadline());
        acquired.then(|| Permit { semaphore: self, count }).ok_or(TimedOut)
    }

    /// Takes `count` permits if they are there and nobody waits before.
    pub fn try_acquire(&self, count: u32) -> Option<Permit<'_>> {
        self.raw.try_acquire(count).then(|| Permit { semaphore: self, count })
    }

    /// Waits for permits; false if the deadline passed.
    #[cold]
    #[inline(never)]
    fn acquire_slow(&self, count: u32, deadline: Deadline) -> bool {
        let waiter = Waiter::caller("Semaphore::acquire");
        let node = Node::new(Request { waiter: waiter.id(), permits: count });
        // SAFETY: the node is new, and stays here until it has left or is claimed.
        if unsafe { self.raw.acquire(&ThisThread, NonNull::from(&node)) } {
            return true;
        }
        waiter.wait(&node, &Asked { semaphore: self, count }, deadline) != Ended::TimedOut
    }

    /// Makes `count` more permits.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[inline]
    pub fn add_permits(&self, count: u32) {
        match self.raw.release_fast(count) {
            Ok(true) => {}
            Ok(false) => self.release_slow(count),
            Err(Overflow) => overflow(),
        }
    }

    #[cold]
    fn release_slow(&self, count: u32) {
        match self.raw.release(&ThisThread, count) {
            Ok(()) => self.serve(),
            Err(Overflow) => overflow(),
        }
    }

    /// Wakes all who can have their permits now.
    fn serve(&self) {
        while let Some(waiter) = self.raw.serve(&ThisThread) {
            wait::wake(Some(waiter));
        }
    }

    /// How many permits are nobody's, in the eyes of whoever asks.
    pub fn available_permits(&self) -> u32 {
        self.raw.available()
    }
}

#[cold]
fn overflow() -> ! {
    panic!("daiko: a semaphore was given more permits than Semaphore::MAX_PERMITS")
}

/// What a waiter has asked a semaphore for.
struct Asked<'s> {
    semaphore: &'s Semaphore,
    count: u32,
}

impl Object<Request<WaiterId>> for Asked<'_> {
    unsafe fn leave(&self, node: NonNull<Node<Request<WaiterId>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { self.semaphore.raw.leave(&ThisThread, node) };
        self.semaphore.serve();
        unlinked
    }

    fn give_way(&self, _: u8) -> bool {
        self.semaphore.add_permits(self.count);
        true
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
