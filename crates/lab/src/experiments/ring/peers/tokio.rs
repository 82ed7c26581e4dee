//! `tokio`: a task per thread of the ring, and a `Notify` to wake it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::experiments::ring::kernel::harness::Conductor;
use crate::experiments::ring::kernel::harness::part::{Follower, Leader, Part, START, pass_on};
use crate::experiments::ring::{Method, RingOutcome, RingSpec, VariedParameters};
use crate::kit::{Failure, OrFailure};

/// The multi-threaded runtime with as many worker threads as workers.
pub(super) fn method() -> Method {
    Method::new("tokio", VariedParameters::Library, |spec| {
        let runtime = Builder::new_multi_thread().worker_threads(spec.workers).build();
        let runtime = runtime.or_limit("tokio's runtime did not start")?;
        TaskRing::new(spec).run(&runtime, spec, START)
    })
}

#[repr(align(64))]
#[derive(Default)]
struct TaskSeat {
    datum: AtomicU64,
    notify: Notify,
}

impl TaskSeat {
    fn send(&self, datum: u64) {
        // Pairs with the Acquire in `receive`.
        self.datum.store(datum, Ordering::Release);
        self.notify.notify_one();
    }

    async fn receive(&self) -> u64 {
        self.notify.notified().await;
        // Pairs with the Release in `send`.
        self.datum.load(Ordering::Acquire)
    }
}

struct TaskRing {
    seats: Box<[TaskSeat]>,
    successors: Vec<u32>,
    conductor: Conductor,
}

impl TaskRing {
    fn new(spec: &RingSpec) -> Arc<Self> {
        Arc::new(Self {
            seats: (0..spec.threads).map(|_| TaskSeat::default()).collect(),
            successors: spec.successors(),
            conductor: Conductor::default(),
        })
    }

    /// Runs the ring from the datum `first`. Tasks that still wait at the end are dropped with the
    /// runtime.
    fn run(
        self: Arc<Self>,
        runtime: &Runtime,
        spec: &RingSpec,
        first: u64,
    ) -> Result<RingOutcome, Failure> {
        let leader = runtime.spawn(Arc::clone(&self).play(0, Leader::new(spec.laps)));
        for index in 1..spec.threads {
            runtime.spawn(Arc::clone(&self).play(index, Follower::new(spec.laps)));
        }
        self.conductor.wait_assembled();
        self.seats[0].send(first);
        let over = self.conductor.wait_over(spec.limit);
        self.seats[0].notify.notify_one();
        let leader = runtime.block_on(leader).or_broken("tokio")?;
        over.map(|()| leader.outcome())
    }

    /// Passes data on until the part ends or the conductor halts.
    async fn play<P: Part>(self: Arc<Self>, index: usize, mut part: P) -> P {
        let own = &self.seats[index];
        let next = &self.seats[self.successors[index] as usize];
        self.conductor.arrive(self.seats.len());
        loop {
            let found = own.receive().await;
            if self.conductor.halted() {
                return part;
            }
            if !pass_on(&mut part, found, &self.conductor, |datum| next.send(datum)) {
                return part;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::ring::kernel::harness::testing::ring;

    #[test]
    fn a_wrong_datum_is_found() {
        let spec = ring(10, 100);
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let result = TaskRing::new(&spec).run(&runtime, &spec, 9);
        assert_eq!(result, Err(Failure::WrongDatum { expected: START, found: 9 }));
    }
}
