//! Rings of Daiko's fibers.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use daiko::{Builder, Fiber, Runtime};

use super::kernel::harness::{
    Conductor,
    part::{Follower, Leader, Part, START, Step},
};
use super::{Kind, Layout, Method, Outcome, Spec};
use crate::{Failure, Skip};

/// All methods of this module, in the order of tables.
pub fn methods() -> Vec<Box<dyn Method>> {
    vec![
        Box::new(Parking { name: "daiko", mover: false }),
        Box::new(Parking { name: "daiko-mover", mover: true }),
    ]
}

/// Fibers that park, unparked by their predecessors.
struct Parking {
    name: &'static str,
    mover: bool,
}

impl Method for Parking {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> Kind {
        Kind::Daiko
    }

    fn supports(&self, _: &Spec) -> Result<(), Skip> {
        Ok(())
    }

    fn run(&self, spec: &Spec) -> Result<Outcome, Failure> {
        let runtime = Runtime::builder()
            .workers(spec.workers)
            .build()
            .map_err(|error| Failure::Limit(error.to_string()))?;
        Ring::new(spec).run(&runtime, spec, self.mover)
    }
}

#[repr(align(64))]
#[derive(Default)]
struct Seat {
    datum: AtomicU64,
    fiber: OnceLock<Fiber>,
}

impl Seat {
    #[inline]
    fn send(&self, fiber: &Fiber, datum: u64) {
        // Pairs with the Acquire in `receive`.
        self.datum.store(datum, Ordering::Release);
        fiber.unpark();
    }

    fn fiber(&self) -> &Fiber {
        self.fiber.get().expect("set before the first datum is sent")
    }
}

struct Ring {
    seats: Box<[Seat]>,
    successor: Box<[u32]>,
    conductor: Conductor,
}

impl Ring {
    fn new(spec: &Spec) -> Arc<Self> {
        Arc::new(Self {
            seats: (0..spec.threads).map(|_| Seat::default()).collect(),
            successor: spec.successor.as_slice().into(),
            conductor: Conductor::default(),
        })
    }

    fn run(
        self: Arc<Self>,
        runtime: &Runtime,
        spec: &Spec,
        mover: bool,
    ) -> Result<Outcome, Failure> {
        let workers = workers(spec);
        let spawn = |index: usize| {
            let worker = workers[index];
            let mut builder = Builder::new();
            if let Some(worker) = worker {
                builder = builder.on(worker);
            }
            if mover {
                // SAFETY: `play` keeps nothing in thread-local storage.
                builder = unsafe { builder.mover() };
            }
            builder
        };
        let failed = |error: daiko::SpawnError| Failure::Limit(error.to_string());
        let (ring, laps) = (Arc::clone(&self), spec.laps);
        let leader = runtime
            .spawn_with(spawn(0), move || play::<_, 0>(&ring, 0, Leader::new(laps)))
            .map_err(failed)?;
        let _ = self.seats[0].fiber.set(leader.fiber().clone());
        for index in 1..spec.threads {
            let ring = Arc::clone(&self);
            let play = SITES[index % spec.sites];
            let follower = runtime
                .spawn_with(spawn(index), move || play(&ring, index, Follower::new(laps)))
                .map_err(failed)?;
            let _ = self.seats[index].fiber.set(follower.fiber().clone());
        }
        self.conductor.wait_assembled();
        self.seats[0].send(self.seats[0].fiber(), START);
        let over = self.conductor.wait_over(spec.limit);
        self.seats.iter().for_each(|seat| seat.fiber().unpark());
        let leader = leader.join().map_err(|error| Failure::Broken(format!("daiko: {error}")))?;
        over.map(|()| leader.outcome())
    }
}

/// The worker of each fiber; `None` leaves it to the runtime.
fn workers(spec: &Spec) -> Vec<Option<usize>> {
    let positions = spec.positions();
    let worker = |position: u32| match spec.layout {
        Some(Layout::Half) => Some(position as usize * spec.workers / spec.threads),
        Some(Layout::Cross) => Some(position as usize % spec.workers),
        Some(Layout::Free) | None => None,
    };
    positions.into_iter().map(worker).collect()
}

type Play = fn(&Ring, usize, Follower) -> Follower;

/// As many functions that suspend as there may be sites.
const SITES: [Play; 16] = [
    play::<_, 0>,
    play::<_, 1>,
    play::<_, 2>,
    play::<_, 3>,
    play::<_, 4>,
    play::<_, 5>,
    play::<_, 6>,
    play::<_, 7>,
    play::<_, 8>,
    play::<_, 9>,
    play::<_, 10>,
    play::<_, 11>,
    play::<_, 12>,
    play::<_, 13>,
    play::<_, 14>,
    play::<_, 15>,
];

/// Passes data on until the part ends, or all are to end.
#[inline(never)]
fn play<P: Part, const SITE: usize>(ring: &Ring, index: usize, mut part: P) -> P {
    distinct::<SITE>();
    let own = &ring.seats[index].datum;
    let next = &ring.seats[ring.successor[index] as usize];
    ring.conductor.arrive(ring.seats.len());
    let mut last = 0;
    let mut successor = None;
    loop {
        let found = loop {
            // Pairs with the Release in `send`.
            let found = own.load(Ordering::Acquire);
            if found != last {
                break found;
            }
            daiko::park();
            if ring.conductor.halted() {
                return part;
            }
        };
        last = found;
        let successor = *successor.get_or_insert_with(|| next.fiber());
        match part.take(found) {
            Ok(Step::Pass(datum)) => next.send(successor, datum),
            Ok(Step::PassLast(datum)) => {
                next.send(successor, datum);
                return part;
            }
            Ok(Step::End) => {
                ring.conductor.report(Ok(()));
                return part;
            }
            Err(wrong) => {
                ring.conductor.report(Err(wrong));
                return part;
            }
        }
    }
}

/// Keeps the functions of different sites from being merged into one.
#[inline(always)]
fn distinct<const SITE: usize>() {
    // SAFETY: a comment, no instruction.
    unsafe { std::arch::asm!("/* site {} */", const SITE, options(nomem, nostack)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::kernel::harness::testing::ring;

    #[test]
    fn every_layout_completes_its_laps() {
        for method in methods() {
            for threads in [2, 3, 10, 100] {
                let one = ring(threads, 20);
                assert_eq!(method.run(&one).unwrap().laps, 20);
                assert_eq!(method.run(&Spec { sites: 16, ..one.clone() }).unwrap().laps, 20);
                for layout in [Layout::Half, Layout::Cross, Layout::Free] {
                    let two = Spec { workers: 2, layout: Some(layout), ..one.clone() };
                    assert_eq!(method.run(&two).unwrap().laps, 20, "{layout:?}");
                }
            }
        }
    }

    #[test]
    fn every_hop_crosses_in_layout_cross() {
        let spec = Spec { workers: 2, layout: Some(Layout::Cross), ..ring(10, 1) };
        let workers = workers(&spec);
        for thread in 0..10 {
            assert_ne!(workers[thread], workers[spec.successor[thread] as usize]);
        }
    }
}
