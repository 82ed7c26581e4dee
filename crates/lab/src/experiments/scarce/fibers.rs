//! `daiko`, `daiko-own-mover`: a fiber for each waiter.

use std::time::Duration;

use daiko::{Builder, Runtime};

use super::point::ScarceSpec;
use crate::kit::ring::fibers::{FiberRing, Parking};
use crate::kit::ring::part::Leader;
use crate::kit::{Failure, RingOutcome};

/// Runs the ring in a runtime of its own.
pub(super) fn run(
    spec: &ScarceSpec,
    migratable: bool,
    successors: Vec<u32>,
    leader: Leader,
    limit: Duration,
) -> Result<RingOutcome, Failure> {
    let builder = Runtime::builder().workers(spec.workers);
    let builder = match spec.preset {
        Some(preset) => builder.preset(preset),
        None => builder,
    };
    let runtime = builder.build()?;
    let spawns = |_| {
        let builder = Builder::new();
        (if migratable { builder.migratable() } else { builder }, Parking)
    };
    FiberRing::new(successors).run(&runtime, spawns, 1, leader, limit)
}
