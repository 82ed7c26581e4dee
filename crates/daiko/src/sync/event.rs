//! Events that threads and fibers wait for.

use crate::caller;
use crate::select::{Look, Selectable, Selected};
use std::fmt;
use std::ptr::NonNull;

use daiko_core::claim::Ticket;
use daiko_core::event::RawEvent;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::Node;

use daiko_rt::Deadline;
use daiko_rt::TimedOut;
use daiko_rt::call::InCall;
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object, ticket_id};

/// An event that is set, and that waiters wait for.
///
/// A [`manual`](Self::manual) event stays set until it is [`reset`](Self::reset), and lets all
/// present and later waiters go meanwhile. An [`auto`](Self::auto) event lets one waiter go each
/// time that it is set: the longest waiter or, if there is none, the next one to come. Sets without
/// a waiter do not add up.
///
/// A set that meets a [`select!`](crate::select!) which another operation has just ended lets the
/// next waiter go instead.
///
/// Actions before a set happen before the return of the waits that it ends.
///
/// ```
/// use daiko::sync::Event;
/// use std::sync::Arc;
///
/// daiko::run(|| {
///     let ready = Arc::new(Event::manual());
///     let waiters: Vec<_> = (0..3)
///         .map(|_| {
///             let ready = Arc::clone(&ready);
///             daiko::spawn(move || ready.wait())
///         })
///         .collect();
///     ready.set();
///     waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
///     assert!(ready.is_set());
/// });
/// ```
pub struct Event {
    raw: RawEvent<WaiterId>,
}

const _: () = assert!(size_of::<Event>() == 16);

impl Event {
    /// Creates an unset event that, once set, stays so until it is [`reset`](Self::reset).
    pub const fn manual() -> Self {
        Event { raw: RawEvent::manual() }
    }

    /// Creates an unset event that lets one waiter go each time that it is set, which leaves it
    /// unset.
    ///
    /// ```
    /// # use daiko::sync::{Event, TimedOut};
    /// # use std::time::Duration;
    /// let event = Event::auto();
    /// event.set();
    /// event.set();
    /// event.wait();
    /// assert_eq!(event.wait_timeout(Duration::ZERO), Err(TimedOut));
    /// ```
    pub const fn auto() -> Self {
        Event { raw: RawEvent::auto() }
    }

    /// Sets the event: lets all waiters go, or one of them.
    #[inline]
    pub fn set(&self) {
        daiko_rt::in_call!(|call| self.set_in(call));
    }

    #[inline(always)]
    fn set_in(&self, call: InCall<'_>) {
        if !self.raw.set_fast() {
            self.set_slow(call);
        }
    }

    #[cold]
    fn set_slow(&self, call: InCall<'_>) {
        if !self.raw.is_auto() {
            return wait::wake_all(call, self.raw.set(ThisThread::of(call)));
        }
        // Another time for each select that another object had ended before.
        while let Some(waiter) = self.raw.set(ThisThread::of(call)).next()
            && !wait::hand_over(call, waiter)
        {}
    }

    /// Unsets the event. A waiter that was let go before still returns, even if it has not run yet.
    pub fn reset(&self) {
        self.raw.reset();
    }

    /// Returns true if it is set at this moment.
    pub fn is_set(&self) -> bool {
        self.raw.is_set()
    }

    /// Waits until it is set: a fiber suspends, any other thread blocks.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    #[inline]
    pub fn wait(&self) {
        let _ = self.wait_until("Event::wait", || Deadline::NEVER);
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&self, timeout: impl Into<Deadline>) -> Result<(), TimedOut> {
        self.wait_until("Event::wait", || timeout.into())
    }

    /// Waits on behalf of the named call.
    #[inline]
    pub(super) fn wait_until(
        &self,
        operation: &str,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), TimedOut> {
        daiko_rt::in_call!(|call| match self.raw.try_pass() {
            true => Ok(()),
            false => self.wait_slow(call, operation, deadline()),
        })
    }

    #[cold]
    #[inline(never)]
    fn wait_slow(
        &self,
        call: InCall<'_>,
        operation: &str,
        deadline: Deadline,
    ) -> Result<(), TimedOut> {
        let waiter = caller::waiter(operation);
        let node = Node::new(waiter.id());
        // SAFETY: the node is new, and stays in place until it has left or is claimed.
        if unsafe { self.raw.pass(ThisThread::of(call), NonNull::from(&node)) } {
            return Ok(());
        }
        match waiter.wait(call, &node, self, deadline) {
            Ended::Claimed(_) => Ok(()),
            Ended::TimedOut => Err(TimedOut),
        }
    }
}

impl Object<WaiterId> for Event {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<WaiterId>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.raw.leave(ThisThread::of(call), node) }
    }

    /// A manual event has let all other waiters go as well.
    fn give_way(&self, call: InCall<'_>, _: u8) -> bool {
        if self.raw.is_auto() {
            self.set_in(call);
        }
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Event, self)
    }
}

/// A wait for an event in a select.
pub(super) struct WaitEvent<'e>(pub(super) &'e Event);

impl Event {
    /// Creates a wait for `select!`.
    #[doc(hidden)]
    pub fn select_wait(&self) -> Selected<impl Selectable<Output = ()>> {
        Selected::new(WaitEvent(self))
    }
}

impl Selectable for WaitEvent<'_> {
    type Node = Node<WaiterId>;
    type Output = ();

    fn attempt(&self, _: InCall<'_>, _: Look) -> Option<()> {
        self.0.raw.try_pass().then_some(())
    }

    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> Self::Node {
        // SAFETY: passed on to the caller.
        Node::new(unsafe { ticket_id(ticket) })
    }

    unsafe fn enqueue(&self, call: InCall<'_>, node: &Self::Node) -> bool {
        // SAFETY: passed on to the caller.
        let has_passed = unsafe { self.0.raw.pass(ThisThread::of(call), NonNull::from(node)) };
        if has_passed {
            // Another case may be taken.
            self.give_way(call);
        }
        !has_passed
    }

    unsafe fn leave(&self, call: InCall<'_>, node: &Self::Node) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.leave(call, NonNull::from(node)) }
    }

    fn claimed(&self, _: &Self::Node) -> Option<()> {
        Some(())
    }

    fn give_way(&self, call: InCall<'_>) {
        let _ = Object::give_way(self.0, call, 0);
    }

    fn order(&self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("auto", &self.raw.is_auto())
            .field("set", &self.is_set())
            .finish_non_exhaustive()
    }
}
