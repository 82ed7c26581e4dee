//! `daiko`, `daiko-own-mover`: a fiber for each waiter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use daiko::{Builder, Fiber, JoinHandle, Runtime};

use super::point::ScarceSpec;
use crate::kit::ring::part::{Leader, Part, START, pass_on};
use crate::kit::{Conductor, Failure, RingOutcome};

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
    FiberRing::new(successors).run(&runtime, migratable, leader, limit)
}

#[repr(align(64))]
#[derive(Default)]
struct FiberSeat {
    datum: AtomicU64,
    fiber: OnceLock<Fiber>,
}

impl FiberSeat {
    fn fiber(&self) -> &Fiber {
        self.fiber.get().expect("set before the first datum is sent")
    }

    #[inline]
    fn send(&self, fiber: &Fiber, datum: u64) {
        // Pairs with the Acquire in `play`.
        self.datum.store(datum, Ordering::Release);
        fiber.unpark();
    }
}

struct FiberRing {
    seats: Box<[FiberSeat]>,
    successors: Vec<u32>,
    conductor: Conductor,
}

impl FiberRing {
    fn new(successors: Vec<u32>) -> Arc<Self> {
        let seats = successors.iter().map(|_| FiberSeat::default()).collect();
        Arc::new(Self { seats, successors, conductor: Conductor::default() })
    }

    fn run(
        self: Arc<Self>,
        runtime: &Runtime,
        migratable: bool,
        leader: Leader,
        limit: Duration,
    ) -> Result<RingOutcome, Failure> {
        for index in 1..self.seats.len() {
            self.spawn(runtime, migratable, index, leader.follower())?;
        }
        let leader = self.spawn(runtime, migratable, 0, leader)?;
        self.conductor.wait_assembled();
        self.seats[0].send(self.seats[0].fiber(), START);
        let over = self.conductor.wait_over(limit);
        self.seats.iter().for_each(|seat| seat.fiber().unpark());
        let leader = leader.join()?;
        over.map(|()| leader.outcome())
    }

    fn spawn<P: Part + Send + 'static>(
        self: &Arc<Self>,
        runtime: &Runtime,
        migratable: bool,
        index: usize,
        part: P,
    ) -> Result<JoinHandle<P>, Failure> {
        let builder = if migratable { Builder::new().migratable() } else { Builder::new() };
        let ring = Arc::clone(self);
        let fiber = runtime.spawn_with(builder, move || ring.play(index, part))?;
        let _ = self.seats[index].fiber.set(fiber.fiber().clone());
        Ok(fiber)
    }

    /// Passes data on until the part ends or the conductor halts.
    fn play<P: Part>(&self, index: usize, mut part: P) -> P {
        let own = &self.seats[index].datum;
        let next = &self.seats[self.successors[index] as usize];
        self.conductor.arrive(self.seats.len());
        let (mut last, mut successor) = (0, None);
        loop {
            daiko::park();
            if self.conductor.halted() {
                return part;
            }
            // Pairs with the Release in `send`.
            let found = own.load(Ordering::Acquire);
            if found == last {
                continue;
            }
            last = found;
            // A handle of its own, on its own stack: the line of the seat is its successor's.
            let successor = &*successor.get_or_insert_with(|| next.fiber().clone());
            if !pass_on(&mut part, found, &self.conductor, |datum| next.send(successor, datum)) {
                return part;
            }
        }
    }
}
