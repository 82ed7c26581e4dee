//! The parameters of a point.

use daiko::Preset;

use super::quota::Limit;
use crate::kit::{Choice, Params};

/// Workers of all points but those of the sweep.
pub(super) const FEW_WORKERS: usize = 2;

/// Largest numbers that a point may have, as they may come from outside of a plan.
const MOST_THREADS: usize = 100_000_000;
const MOST_WORKERS: usize = 4096;
const MOST_BUSY: usize = 1000;

/// Parameters of a ring and of what it runs beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScarceSpec {
    /// Waiters in the ring, at least 2.
    pub(super) threads: usize,
    /// Workers of the library, at least 1.
    pub(super) workers: usize,
    /// Daiko's preset; with `None`, the default of the runtime.
    pub(super) preset: Option<Preset>,
    /// Processes that compute without end.
    pub(super) busy: usize,
    /// Limit of the CPU time.
    pub(super) limit: Option<Limit>,
}

impl ScarceSpec {
    pub(super) fn params(&self) -> Params {
        let params = Params::new().with("threads", self.threads).with("workers", self.workers);
        let params = params.with_some("preset", self.preset).with("busy", self.busy);
        Limit::with(self.limit, params)
    }

    /// The point that `params` describe.
    pub(super) fn from_params(params: &Params) -> Option<Self> {
        let number = |key, least, most| params.size(key).filter(|n| (least..=most).contains(n));
        let preset = params.get("preset").map(|_| params.choice("preset"));
        Some(Self {
            threads: number("threads", 2, MOST_THREADS)?,
            workers: number("workers", 1, MOST_WORKERS)?,
            preset: transposed(preset)?,
            busy: number("busy", 0, MOST_BUSY)?,
            limit: Limit::from_params(params)?,
        })
    }
}

/// `None` if there is a parameter, but no such value.
fn transposed<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    value.map_or(Some(None), |value| value.map(Some))
}

impl Choice for Preset {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Balanced, "balanced"), (Self::Power, "power"), (Self::Latency, "latency")];
}
