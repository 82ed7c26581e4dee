//! Deadlines: the time at which a wait gives up.

use std::fmt;
use std::time::{Duration, Instant};

use daiko_sys::clock;

/// A point in time at which a wait gives up.
///
/// Functions with a name that ends in `_timeout` take one: from a [`Duration`] that begins with the
/// call, or from an [`Instant`].
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// use std::time::{Duration, Instant};
///
/// daiko::park_timeout(Duration::from_millis(1));
/// daiko::park_timeout(Instant::now() + Duration::from_millis(1));
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// Nanoseconds of the monotonic clock; the maximum means never.
    ns: u64,
}

impl From<Duration> for Deadline {
    /// Returns the time `timeout` from now; after centuries, never.
    fn from(timeout: Duration) -> Self {
        Deadline::after(timeout)
    }
}

impl From<Instant> for Deadline {
    /// Returns the time of `instant`, or now if that has passed.
    fn from(instant: Instant) -> Self {
        Deadline::at(instant)
    }
}

impl Deadline {
    /// A deadline that never comes.
    pub const NEVER: Deadline = Deadline { ns: u64::MAX };

    /// Returns the time `timeout` from now; after centuries, never.
    #[doc(hidden)]
    pub fn after(timeout: Duration) -> Deadline {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Deadline { ns: clock::monotonic_ns().saturating_add(timeout) }
    }

    /// Returns the time of `instant`, or now if that has passed.
    #[doc(hidden)]
    pub fn at(instant: Instant) -> Deadline {
        Self::after(instant.saturating_duration_since(Instant::now()))
    }

    /// Returns the time at `ns` nanoseconds of the clock; the maximum means never.
    #[doc(hidden)]
    pub fn from_ns(ns: u64) -> Deadline {
        Deadline { ns }
    }

    /// Returns the time in nanoseconds; `None` means never.
    #[doc(hidden)]
    pub fn ns(self) -> Option<u64> {
        (self != Self::NEVER).then_some(self.ns)
    }

    /// Returns true if it has passed.
    #[doc(hidden)]
    pub fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// Returns the time that is left; `None` means forever.
    #[doc(hidden)]
    pub fn left(self) -> Option<Duration> {
        let left = |ns: u64| Duration::from_nanos(ns.saturating_sub(clock::monotonic_ns()));
        self.ns().map(left)
    }
}

/// The time of a wait was over before the event came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time of the wait is over")
    }
}

impl std::error::Error for TimedOut {}
