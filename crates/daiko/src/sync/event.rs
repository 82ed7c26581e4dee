//! Whether something has happened.

use std::fmt;
use std::ptr::NonNull;

use daiko_core::event::RawEvent;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::Node;

use super::TimedOut;
use daiko_rt::deadlock::{Kind, Target};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Deadline, Ended, Object, Waiter};

/// Something that happens, and that others wait for.
///
/// A [`manual`](Self::manual) event stays set until it is [`reset`](Self::reset), and lets all go who
/// wait or come meanwhile. An [`auto`](Self::auto) event lets one go each time that it is set: the one
/// who has waited longest, or if nobody waits, the one who comes next. Sets that nobody has waited
/// for do not add up.
///
/// What happened before a set happens before the return of the waits that it ends.
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
    /// An unset event that stays set, once it is, until it is [`reset`](Self::reset).
    pub const fn manual() -> Self {
        Event { raw: RawEvent::manual() }
    }

    /// An unset event that lets one go each time that it is set, which leaves it unset.
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

    /// Says that it has happened: lets all who wait go, or one of them.
    #[inline]
    pub fn set(&self) {
        daiko_rt::in_call!(if !self.raw.set_fast() {
            self.set_slow();
        });
    }

    #[cold]
    fn set_slow(&self) {
        wait::wake_all(self.raw.set(&ThisThread));
    }

    /// Takes back that it has happened. Who was let go before goes, even if he has not run yet.
    pub fn reset(&self) {
        self.raw.reset();
    }

    /// Whether it is set, in the eyes of whoever asks.
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
        self.wait_until("Event::wait", || timeout.into())
    }

    /// Waits in the name of `what`.
    #[inline]
    pub(super) fn wait_until(
        &self,
        what: &str,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), TimedOut> {
        daiko_rt::in_call!(match self.raw.try_pass() {
            true => Ok(()),
            false => self.wait_slow(what, deadline()),
        })
    }

    #[cold]
    #[inline(never)]
    fn wait_slow(&self, what: &str, deadline: Deadline) -> Result<(), TimedOut> {
        let waiter = Waiter::caller(what);
        let node = Node::new(waiter.id());
        // SAFETY: the node is new, and stays here until it has left or is claimed.
        if unsafe { self.raw.pass(&ThisThread, NonNull::from(&node)) } {
            return Ok(());
        }
        match waiter.wait(&node, self, deadline) {
            Ended::Claimed(_) => Ok(()),
            Ended::TimedOut => Err(TimedOut),
        }
    }
}

impl Object<WaiterId> for Event {
    unsafe fn leave(&self, node: NonNull<Node<WaiterId>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.raw.leave(&ThisThread, node) }
    }

    /// A manual event has let all others go as well.
    fn give_way(&self, _: u8) -> bool {
        if self.raw.is_auto() {
            self.set();
        }
        true
    }

    fn target(&self) -> Target {
        Target::new(Kind::Event, self)
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
