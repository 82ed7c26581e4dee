//! `may`: a coroutine per thread of the ring, which parks and unparks its successor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use may::coroutine::{self, Coroutine};

use crate::experiments::ring::kernel::harness::part::{Leader, Part, START};
use crate::experiments::ring::{Method, RingOutcome, RingSpec, VariedParameters};
use crate::kit::coroutines::{self, MAY};
use crate::kit::ring::part::pass_on;
use crate::kit::{Conductor, Failure};

pub(super) fn method() -> Method {
    let method = Method::new(MAY, VariedParameters::Library, |spec| {
        coroutines::configure(spec.workers, None);
        CoroutineRing::new(spec).run(Leader::new(spec.laps), spec.limit, START)
    });
    Method { supports: Box::new(|spec| coroutines::check(spec.threads)), ..method }
}

#[repr(align(64))]
#[derive(Default)]
struct CoroutineSeat {
    datum: AtomicU64,
    /// The coroutine, from before its arrival on.
    coroutine: OnceLock<Coroutine>,
}

impl CoroutineSeat {
    fn send(&self, datum: u64) {
        // Pairs with the Acquire in `receive`.
        self.datum.store(datum, Ordering::Release);
        self.unpark();
    }

    fn unpark(&self) {
        if let Some(coroutine) = self.coroutine.get() {
            coroutine.unpark();
        }
    }

    /// Waits for another datum than `last`, or for the end.
    fn receive(&self, last: u64, conductor: &Conductor) -> u64 {
        loop {
            // Pairs with the Release in `send`.
            let datum = self.datum.load(Ordering::Acquire);
            if datum != last || conductor.halted() {
                return datum;
            }
            coroutine::park();
        }
    }
}

struct CoroutineRing {
    seats: Box<[CoroutineSeat]>,
    successors: Vec<u32>,
    conductor: Conductor,
}

impl CoroutineRing {
    fn new(spec: &RingSpec) -> Arc<Self> {
        let successors = spec.successors();
        Arc::new(Self {
            seats: successors.iter().map(|_| CoroutineSeat::default()).collect(),
            successors,
            conductor: Conductor::default(),
        })
    }

    /// Runs the ring from the datum `first`, for `limit` at most.
    fn run(
        self: Arc<Self>,
        leader: Leader,
        limit: Duration,
        first: u64,
    ) -> Result<RingOutcome, Failure> {
        let followers: Vec<_> = (1..self.seats.len())
            .map(|index| {
                let (ring, follower) = (Arc::clone(&self), leader.follower());
                may::go!(move || {
                    ring.play(index, follower);
                })
            })
            .collect();
        let ring = Arc::clone(&self);
        let leader = may::go!(move || ring.play(0, leader));
        self.conductor.wait_assembled();
        self.seats[0].send(first);
        let over = self.conductor.wait_over(limit);
        self.seats.iter().for_each(CoroutineSeat::unpark);
        let leader = coroutines::join(leader)?;
        followers.into_iter().try_for_each(coroutines::join)?;
        over.map(|()| leader.outcome())
    }

    /// Passes data on until the part ends or the conductor halts.
    fn play<P: Part>(&self, index: usize, mut part: P) -> P {
        let own = &self.seats[index];
        let next = &self.seats[self.successors[index] as usize];
        own.coroutine.get_or_init(coroutine::current);
        self.conductor.arrive(self.seats.len());
        let mut last = 0;
        loop {
            let found = own.receive(last, &self.conductor);
            if self.conductor.halted() {
                return part;
            }
            last = found;
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
        coroutines::configure(2, None);
        let ring = CoroutineRing::new(&ring(10, 100));
        let result = ring.run(Leader::new(100), Duration::from_secs(60), 9);
        assert_eq!(result, Err(Failure::WrongDatum { expected: START, found: 9 }));
    }
}
