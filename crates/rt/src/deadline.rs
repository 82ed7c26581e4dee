//! When a wait gives up.

use std::time::{Duration, Instant};

use daiko_sys::clock;

/// A point in time at which a wait gives up.
///
/// Functions whose names end in `_timeout` take one, from a [`Duration`] that begins with the call, or
/// from an [`Instant`].
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
    /// On the monotonic clock; the last value is never.
    ns: u64,
}

impl From<Duration> for Deadline {
    /// The time `timeout` from now; after centuries never.
    fn from(timeout: Duration) -> Self {
        Deadline::after(timeout)
    }
}

impl From<Instant> for Deadline {
    /// The time of `instant`; now, if that has passed.
    fn from(instant: Instant) -> Self {
        Deadline::at(instant)
    }
}

impl Deadline {
    /// A time that never comes.
    pub const NEVER: Deadline = Deadline { ns: u64::MAX };

    /// So long from now; after centuries never.
    #[doc(hidden)]
    pub fn after(timeout: Duration) -> Deadline {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Deadline { ns: clock::monotonic_ns().saturating_add(timeout) }
    }

    /// At `instant`; if that has passed, now.
    #[doc(hidden)]
    pub fn at(instant: Instant) -> Deadline {
        Self::after(instant.saturating_duration_since(Instant::now()))
    }

    /// At so many nanoseconds of the clock; the last of them is never.
    #[doc(hidden)]
    pub fn from_ns(ns: u64) -> Deadline {
        Deadline { ns }
    }

    /// In nanoseconds; `None`: never.
    #[doc(hidden)]
    pub fn ns(self) -> Option<u64> {
        (self != Self::NEVER).then_some(self.ns)
    }

    /// Whether it has passed.
    #[doc(hidden)]
    pub fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// The time that is left; `None`: all of it.
    #[doc(hidden)]
    pub fn left(self) -> Option<Duration> {
        let left = |ns: u64| Duration::from_nanos(ns.saturating_sub(clock::monotonic_ns()));
        self.ns().map(left)
    }
}
