//! Rings for tests.

use std::time::Duration;

use crate::experiments::ring::{Method, RingSpec};

/// A ring with a limit that only a hanging run meets.
pub(crate) fn ring(threads: usize, laps: u64) -> RingSpec {
    RingSpec { laps, limit: Duration::from_secs(60), ..RingSpec::of_threads(threads) }
}

/// Those of `methods` that can run here. Skipped methods are printed.
pub(crate) fn available(mut methods: Vec<Method>, spec: &RingSpec) -> Vec<Method> {
    methods.retain(|method| match (method.supports)(spec) {
        Ok(()) => true,
        Err(skip) => {
            println!("skipped: {}: {skip}", method.name);
            false
        }
    });
    methods
}
