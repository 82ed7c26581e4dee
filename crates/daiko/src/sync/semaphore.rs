//! Counted permits.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::semaphore::{MAX_PERMITS, RawSemaphore, Request};
use daiko_core::wait::Node;

use super::{TimedOut, permits};
use crate::select::{Borrowed, Look, Selectable, Selected};
use daiko_rt::Deadline;
use daiko_rt::call::{self, Call, InCall, Item};
use daiko_rt::deadlock::WaitKind;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::ticket_id;

/// A number of permits, each of which is held or available.
///
/// A fiber that has to wait for permits suspends; any other thread blocks. Waiters are served in
/// FIFO order without overtaking, so that a waiter for many permits gets them.
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

/// Name of a wait in messages.
const WAIT_KIND: &(WaitKind, &str) = &(WaitKind::Semaphore, "Semaphore::acquire");

/// Permits of a [`Semaphore`]; dropping it gives them back, as does the loss of their fiber with
/// its [worker's process](daiko_rt::process).
///
/// It stays with the fiber or thread that acquired it: like the guards of locks, it is not
/// [`Send`]. To pass permits to another fiber or thread, [forget](Self::forget) them here and
/// [adopt](Semaphore::adopt) them there:
///
/// ```compile_fail,E0277
/// static DOORS: daiko::sync::Semaphore = daiko::sync::Semaphore::new(1);
///
/// let permit = DOORS.acquire();
/// std::thread::spawn(move || drop(permit));
/// ```
#[must_use = "permits are given back where this is dropped"]
#[clippy::has_significant_drop]
pub struct Permit<'s> {
    semaphore: &'s Semaphore,
    count: u32,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared reference to a permit gives a number that does not change.
unsafe impl Sync for Permit<'_> {}

impl Semaphore {
    /// Maximum number of permits of a semaphore at a time.
    pub const MAX_PERMITS: u32 = MAX_PERMITS;

    /// Creates a semaphore with `permits` permits.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
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

    /// Waits for `count` permits at once. A waiter for one permit queues behind a waiter for many.
    ///
    /// It waits forever for more permits than will ever be available.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    #[inline]
    pub fn acquire_many(&self, count: u32) -> Permit<'_> {
        if call::notes_calls() {
            let _ = permits::take_in_call(&self.raw, count, WAIT_KIND, self.item(count), || {
                Deadline::NEVER
            });
        } else if !self.raw.try_acquire(count) {
            let _ = permits::acquire_slow(
                // SAFETY: sections are not noted, as was just found; used by this call.
                unsafe { InCall::unnoted() },
                &self.raw,
                count,
                WAIT_KIND,
                Deadline::NEVER,
            );
        }
        self.permit(count)
    }

    /// Acquires permits as [`acquire_many`](Self::acquire_many) does, but waits for at most
    /// `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_timeout(
        &self,
        count: u32,
        timeout: impl Into<Deadline>,
    ) -> Result<Permit<'_>, TimedOut> {
        self.acquire_until(count, || timeout.into())
    }

    pub(crate) fn acquire_until(
        &self,
        count: u32,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Permit<'_>, TimedOut> {
        let acquired =
            permits::take_in_call(&self.raw, count, WAIT_KIND, self.item(count), deadline);
        acquired.then(|| self.permit(count)).ok_or(TimedOut)
    }

    /// Takes `count` permits if they are available and no waiter is ahead.
    pub fn try_acquire(&self, count: u32) -> Option<Permit<'_>> {
        permits::try_take(&self.raw, count, self.item(count)).then(|| self.permit(count))
    }

    /// Makes the caller the holder of `count` permits that were [forgotten](Permit::forget).
    ///
    /// ```
    /// # daiko::run(|| {
    /// use daiko::sync::Semaphore;
    /// use std::sync::Arc;
    ///
    /// let doors = Arc::new(Semaphore::new(2));
    /// let theirs = Arc::clone(&doors);
    /// // Acquired here, given back there.
    /// doors.acquire().forget();
    /// let guest = daiko::spawn(move || drop(theirs.adopt(1)));
    /// guest.join().unwrap();
    /// assert_eq!(doors.available_permits(), 2);
    /// # });
    /// ```
    ///
    /// The origin of the permits is not checked. Once they are dropped, the effect is that of
    /// [`add_permits`](Self::add_permits).
    pub fn adopt(&self, count: u32) -> Permit<'_> {
        Call::enter().add(self.item(count));
        self.permit(count)
    }

    /// The item of a holder's robust list.
    #[inline]
    fn item(&self, count: u32) -> Item {
        permits::item(&self.raw, count)
    }

    /// Makes the guard of permits that the caller holds, as its robust list records.
    #[inline]
    fn permit(&self, count: u32) -> Permit<'_> {
        Permit { semaphore: self, count, not_send: PhantomData }
    }

    /// Adds `count` permits.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[inline]
    pub fn add_permits(&self, count: u32) {
        let call = Call::enter();
        permits::release(call.token(), &self.raw, count);
    }

    /// Returns the number of available permits at this moment.
    pub fn available_permits(&self) -> u32 {
        self.raw.available()
    }
}

/// An acquisition in a select.
#[doc(hidden)]
pub struct SelectAcquire<'s>(Selected<Acquire<'s>>);

struct Acquire<'s> {
    semaphore: &'s Semaphore,
    count: u32,
}

impl Semaphore {
    /// Creates an acquisition of `count` permits for `select!`.
    #[doc(hidden)]
    pub fn select_acquire(&self, count: u32) -> SelectAcquire<'_> {
        SelectAcquire(Selected::new(Acquire { semaphore: self, count }))
    }
}

impl<'s> SelectAcquire<'s> {
    /// Borrows the case for a select.
    pub fn borrow_case(&mut self) -> Borrowed<'_> {
        self.0.borrow_case()
    }

    /// Returns the permits, if this is the case that was done. The select has recorded them as the
    /// caller's.
    pub fn result(&self) -> Option<Permit<'s>> {
        let Acquire { semaphore, count } = *self.0.operation();
        self.0.result().map(|()| semaphore.permit(count))
    }
}

impl Selectable for Acquire<'_> {
    type Node = Node<Request<WaiterId>>;
    type Output = ();

    fn attempt(&self, _: InCall<'_>, _: Look) -> Option<()> {
        self.semaphore.raw.try_acquire(self.count).then_some(())
    }

    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> Self::Node {
        // SAFETY: passed on to the caller.
        Node::new(Request { waiter: unsafe { ticket_id(ticket) }, permits: self.count })
    }

    unsafe fn enqueue(&self, call: InCall<'_>, node: &Self::Node) -> bool {
        let (by, node) = (ThisThread::of(call), NonNull::from(node));
        // SAFETY: passed on to the caller.
        let has_permits = unsafe { self.semaphore.raw.acquire(by, node) };
        if has_permits {
            // Another case may be taken.
            self.give_way(call);
        }
        !has_permits
    }

    unsafe fn leave(&self, call: InCall<'_>, node: &Self::Node) -> Unlinked {
        let (by, node) = (ThisThread::of(call), NonNull::from(node));
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { self.semaphore.raw.leave(by, node) };
        permits::serve(call, &self.semaphore.raw);
        unlinked
    }

    fn claimed(&self, _: &Self::Node) -> Option<()> {
        Some(())
    }

    fn give_way(&self, call: InCall<'_>) {
        permits::release(call, &self.semaphore.raw, self.count);
    }

    fn held(&self) -> Option<Item> {
        Some(self.semaphore.item(self.count))
    }

    fn order(&self) -> usize {
        ptr::from_ref(self.semaphore).addr()
    }
}

impl Permit<'_> {
    /// Returns the number of permits held.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Gives up the permits without returning them, until another holder [adopts](Semaphore::adopt)
    /// them.
    pub fn forget(self) {
        Call::enter().remove(self.semaphore.item(self.count));
        let _kept = ManuallyDrop::new(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        permits::give_back(&self.semaphore.raw, self.count, self.semaphore.item(self.count));
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("semaphore", self.semaphore)
            .field("count", &self.count)
            .finish()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available_permits", &self.available_permits())
            .finish_non_exhaustive()
    }
}
