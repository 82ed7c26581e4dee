//! The ring of tokio: a task per thread of the ring, and a `Notify` to wake it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task;

use super::RingOutcome;
use super::part::{Leader, Part, pass_on};
use crate::kit::tasks::TokioKind;
use crate::kit::{Conductor, Failure, OrFailure};

/// The runtime with so many worker threads.
pub(crate) fn runtime(kind: TokioKind, workers: usize) -> Result<Runtime, Failure> {
    kind.builder(workers).build().or_limit("tokio's runtime did not start")
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

/// A ring of tasks.
pub(crate) struct TaskRing {
    seats: Box<[TaskSeat]>,
    successors: Vec<u32>,
    conductor: Conductor,
}

impl TaskRing {
    /// A ring in which task `i` sends to task `successors[i]`.
    pub(crate) fn new(successors: Vec<u32>) -> Arc<Self> {
        Arc::new(Self {
            seats: successors.iter().map(|_| TaskSeat::default()).collect(),
            successors,
            conductor: Conductor::default(),
        })
    }

    /// Runs the ring from the datum `first`, for `limit` at most. Tasks that still wait at the end
    /// are dropped with the runtime.
    pub(crate) fn run(
        self: Arc<Self>,
        runtime: &Runtime,
        leader: Leader,
        limit: Duration,
        first: u64,
    ) -> Result<RingOutcome, Failure> {
        // The calling thread runs the tasks, if the runtime has no threads of its own.
        let (over, leader) = runtime.block_on(async {
            for index in 1..self.seats.len() {
                task::spawn(Arc::clone(&self).play(index, leader.follower()));
            }
            let leader = task::spawn(Arc::clone(&self).play(0, leader));
            let ring = Arc::clone(&self);
            let conducting = thread::spawn(move || ring.conduct(limit, first));
            let leader = leader.await;
            (conducting.join().expect("it does not panic"), leader)
        });
        let leader = leader.or_broken("tokio")?;
        over.map(|()| leader.outcome())
    }

    /// Starts the ring once all tasks have arrived, and ends it.
    fn conduct(&self, limit: Duration, first: u64) -> Result<(), Failure> {
        self.conductor.wait_assembled();
        self.seats[0].send(first);
        let over = self.conductor.wait_over(limit);
        self.seats[0].notify.notify_one();
        over
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
    use super::super::part::START;
    use super::*;
    use crate::kit::Order;

    #[test]
    fn a_wrong_datum_is_found() {
        for kind in [TokioKind::MultiThread, TokioKind::CurrentThread] {
            let ring = TaskRing::new(Order::Shuffled.successors(10));
            let limit = Duration::from_secs(60);
            let result = ring.run(&runtime(kind, 1).unwrap(), Leader::new(100), limit, 9);
            assert_eq!(result, Err(Failure::WrongDatum { expected: START, found: 9 }));
        }
    }
}
