//! The report on how agents poll.

use std::time::Duration;

use daiko_core::governor::{Governor, Spin, SpinReason};

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
        let Spin { ns, reason } = governor.plan().spin;
        Polling {
            spin: (ns != u64::MAX).then(|| Duration::from_nanos(ns)),
            reason,
            sleep_cost: Duration::from_nanos(governor.sleep.mean_ns()),
        }
    }
}
