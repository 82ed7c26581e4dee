//! Rings for tests.

use std::time::Duration;

use crate::experiments::ring::{Cpus, Spec};

/// A ring in reverse order, with a limit that only a hanging run meets.
pub(crate) fn ring(threads: usize, laps: u64) -> Spec {
    let before = |thread: usize| ((thread + threads - 1) % threads) as u32;
    Spec {
        threads,
        successor: (0..threads).map(before).collect(),
        laps,
        cpus: Cpus::All,
        workers: 1,
        layout: None,
        sites: 1,
        limit: Duration::from_secs(60),
    }
}
