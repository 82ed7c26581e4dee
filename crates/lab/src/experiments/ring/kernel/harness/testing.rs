//! Rings for tests.

use std::time::Duration;

use crate::experiments::ring::RingSpec;

/// A ring with a limit that only a hanging run meets.
pub(crate) fn ring(threads: usize, laps: u64) -> RingSpec {
    RingSpec { laps, limit: Duration::from_secs(60), ..RingSpec::of_threads(threads) }
}
