//! Waiting for a time.

use crate::caller;
use crate::select::{Look, Selectable, Selected};
use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_sys::clock;

pub use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::fiber::{CancelScope, unwind};
use daiko_rt::wait::Waiter;
use daiko_rt::worker::suspend::{self, Resumed};

/// Suspends the calling fiber for a `Duration`, or until an `Instant`; any other thread sleeps, as
/// in [`std::thread::sleep`].
///
/// It never returns before that time. It returns later by a microsecond or two while the worker's
/// agent polls, by the kernel's time to wake the worker if it is parked, and by the time that other
/// fibers of the worker run without suspending. An unpark does not end it.
///
/// ```
/// # daiko::run(|| {
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// daiko::time::sleep(Duration::from_millis(2));
/// assert!(start.elapsed() >= Duration::from_millis(2));
///
/// daiko::time::sleep(start + Duration::from_millis(4));
/// assert!(start.elapsed() >= Duration::from_millis(4));
/// # });
/// ```
///
/// # Panics
///
/// If the caller is a fiber inside [`no_suspend`](crate::no_suspend).
pub fn sleep(until: impl Into<Deadline>) {
    sleep_to("time::sleep", until.into());
}

fn sleep_to(operation: &str, deadline: Deadline) {
    let call = Call::enter();
    let Some((_, fiber)) = caller::try_caller() else {
        daiko_rt::worker::assert_no_poller(operation);
        return std::thread::sleep(deadline.left().unwrap_or(Duration::MAX));
    };
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    let sleep = || suspend::wait_until(call.token(), fiber, deadline);
    if fiber.waiting_for(WaitTarget::of(WaitKind::Sleep), sleep) == Resumed::Cancelled {
        unwind::raise_now(fiber);
    }
}

/// Runs `body` for at most a `Duration`, or until an `Instant`: when that is over, the calling
/// fiber is unwound out of it, at the suspension that it is in, or else its next one.
///
/// The fiber is unwound as by a [cancel](crate::cancel), with the payload
/// [`Cancelled`](crate::Cancelled): destructors run, and locks are freed and not poisoned. It is
/// not unwound while it unwinds already, or inside a [`shield`](crate::cancel::shield) that `body`
/// has entered. If `body` catches the unwind, the fiber is unwound again at the next suspension. As
/// with a panic, changes by `body` may be left half done, and a destructor that panics meanwhile
/// aborts the process. A call that does not suspend, or waits for a [`blocking`](crate::blocking())
/// call, is not cut short.
///
/// A result that is there is returned, however late. If timeouts nest, the outermost that has
/// expired ends; a cancel of the fiber ends them all.
///
/// ```
/// # daiko::run(|| {
/// use daiko::time::{self, Elapsed};
/// use std::time::{Duration, Instant};
///
/// let short = Duration::from_millis(1);
/// assert_eq!(time::timeout(short, || 6 * 7), Ok(42));
/// assert_eq!(time::timeout(short, daiko::park), Err(Elapsed));
/// assert_eq!(time::timeout(Instant::now() + short, daiko::park), Err(Elapsed));
/// # });
/// ```
///
/// With `panic = "abort"` nothing can be unwound: it only runs `body`.
///
/// # Errors
///
/// If `body` was unwound.
///
/// # Panics
///
/// If `body` panics, with its payload; or if the caller is not a fiber, as a thread cannot be
/// unwound: its waits have timeouts of their own.
#[track_caller]
pub fn timeout<R>(until: impl Into<Deadline>, body: impl FnOnce() -> R) -> Result<R, Elapsed> {
    within("time::timeout", until.into(), body)
}

#[track_caller]
fn within<R>(operation: &str, deadline: Deadline, body: impl FnOnce() -> R) -> Result<R, Elapsed> {
    let mut call = Call::enter();
    let (worker, fiber) = caller::caller(operation);
    if cfg!(panic = "abort") {
        return Ok(call.user_code(body));
    }
    let scope = CancelScope::new(fiber, deadline);
    let run = |call: &mut Call| scope.run(call, fiber, body);
    let result = match deadline.ns() {
        None => run(&mut call),
        Some(due) if due <= clock::monotonic_ns() => {
            scope.mark().end(|| ());
            run(&mut call)
        }
        Some(due) => worker.timers.during_scope(&mut call, fiber, scope.mark(), due, run),
    };
    scope.settle(call.token(), fiber, result).map_err(|_| Elapsed)
}

/// Error of a [`timeout`]: the time was over before the body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time was over before the end")
    }
}

impl std::error::Error for Elapsed {}

/// Source of ticks at fixed times, made by [`interval`].
#[derive(Clone, Debug)]
pub struct Interval {
    /// The time of the next tick, in nanoseconds on the monotonic clock.
    next: u64,
    period: u64,
}

/// Creates an interval. The first tick is due now, and each later tick `period` after the
/// previous.
///
/// ```
/// # daiko::run(|| {
/// use std::time::{Duration, Instant};
///
/// let (start, mut interval) = (Instant::now(), daiko::time::interval(Duration::from_millis(1)));
/// for tick in 0..4 {
///     interval.tick();
///     assert!(start.elapsed() >= tick * Duration::from_millis(1));
/// }
/// # });
/// ```
///
/// # Panics
///
/// If `period` is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "daiko: the period of an interval must not be zero");
    let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    Interval { next: clock::monotonic_ns(), period }
}

impl Interval {
    /// Waits for the next tick, as [`sleep`] does. Returns the number of ticks missed since the
    /// last one: the next tick is the first that is still to come.
    ///
    /// Ticks do not drift: they are due at multiples of the period, however late one was seen.
    ///
    /// # Panics
    ///
    /// As [`sleep`].
    pub fn tick(&mut self) -> u64 {
        sleep_to("Interval::tick", Deadline::from_ns(self.next));
        self.advance()
    }

    /// Goes on to the next tick that is still to come, after one that is due. Returns the number of
    /// ticks missed in between.
    fn advance(&mut self) -> u64 {
        let missed = clock::monotonic_ns().saturating_sub(self.next) / self.period;
        self.next = self.next.saturating_add(self.period.saturating_mul(missed + 1));
        missed
    }

    /// Returns the time between two ticks.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }
}

/// A time in a select, and the action that is due then.
struct Timer<A> {
    due: Deadline,
    act: RefCell<A>,
}

/// Creates a sleep for `select!`.
#[doc(hidden)]
pub fn select_sleep(until: impl Into<Deadline>) -> Selected<impl Selectable<Output = ()>> {
    Selected::new(Timer { due: until.into(), act: RefCell::new(|| ()) })
}

impl Interval {
    /// Creates a tick for `select!`.
    #[doc(hidden)]
    pub fn select_tick(&mut self) -> Selected<impl Selectable<Output = u64>> {
        let due = Deadline::from_ns(self.next);
        Selected::new(Timer { due, act: RefCell::new(|| self.advance()) })
    }
}

impl<R, A: FnMut() -> R> Selectable for Timer<A> {
    type Node = ();
    type Output = R;

    fn attempt(&self, _: InCall<'_>, _: Look) -> Option<R> {
        self.due.is_over().then(&mut *self.act.borrow_mut())
    }

    fn begin(&self, _: &Waiter) -> (Deadline, WaitKind) {
        (self.due, WaitKind::Sleep)
    }

    unsafe fn node(&self, _: &Ticket<WaiterId>) {}

    unsafe fn enqueue(&self, _: InCall<'_>, (): &()) -> bool {
        true
    }

    unsafe fn leave(&self, _: InCall<'_>, (): &()) -> Unlinked {
        Unlinked::Mine
    }

    fn order(&self) -> usize {
        0
    }
}
