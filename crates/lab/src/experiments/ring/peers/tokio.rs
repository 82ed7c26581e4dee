//! `tokio`: a task per thread of the ring, in the multi-threaded runtime with as many worker
//! threads as workers.

use crate::experiments::ring::kernel::harness::part::{Leader, START};
use crate::experiments::ring::{Method, VariedParameters};
use crate::kit::ring::tasks::{TaskRing, runtime};

pub(super) fn method() -> Method {
    Method::new("tokio", VariedParameters::Library, |spec| {
        let (runtime, leader) = (runtime(spec.workers)?, Leader::new(spec.laps));
        TaskRing::new(spec.successors()).run(&runtime, leader, spec.limit, START)
    })
}
