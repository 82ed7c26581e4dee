//! The report on how agents poll.

use std::time::Duration;

use daiko_core::governor::{Governor, SpinReason};

/// How agents poll, and why; from [`Runtime::polling`](crate::Runtime::polling).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Polling {
    /// Time that an agent without work spins before its worker sleeps; `None` is without limit.
    pub spin: Option<Duration>,
    /// The reason for that time.
    pub reason: SpinReason,
    /// Mean time from the wake of a sleeping worker until it runs, as measured; 5 us before any
    /// sleep.
    pub sleep_cost: Duration,
}

impl Polling {
    pub(crate) fn of(governor: &Governor) -> Self {
        let (plan, reason) = (governor.plan(), governor.reason());
        Polling {
            spin: plan.spin_ns.map(Duration::from_nanos),
            reason,
            sleep_cost: Duration::from_nanos(governor.sleep.mean_ns()),
        }
    }
}
