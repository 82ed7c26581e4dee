//! `tokio`, `tokio-current`: a task per thread of the ring, in the multi-threaded runtime with as
//! many worker threads as workers, and in the runtime of one thread.

use crate::experiments::ring::kernel::harness::part::{Leader, START};
use crate::experiments::ring::{Method, VariedParameters};
use crate::kit::ring::tasks::{TaskRing, runtime};
use crate::kit::tasks::{TOKIO, TokioKind};

pub(super) fn methods() -> [Method; 2] {
    TOKIO.map(|(name, kind)| method(name, kind))
}

fn method(name: &'static str, kind: TokioKind) -> Method {
    let method = Method::new(name, VariedParameters::Library, move |spec| {
        let (runtime, leader) = (runtime(kind, spec.workers)?, Leader::new(spec.laps));
        TaskRing::new(spec.successors()).run(&runtime, leader, spec.limit, START)
    });
    Method { supports: Box::new(move |spec| kind.supports(spec.workers)), ..method }
}
