//! Rings for tests.

use std::time::Duration;

use crate::experiments::ring::Spec;

/// A ring with a limit that only a hanging run meets.
pub(crate) fn ring(threads: usize, laps: u64) -> Spec {
    Spec { laps, limit: Duration::from_secs(60), ..Spec::of_threads(threads) }
}
