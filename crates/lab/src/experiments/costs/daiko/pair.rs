//! Cost that pairing adds to a context switch: fibers yield to each other on a worker while a
//! second worker is treated as its hyperthread sibling.
//!
//! The second worker is on another core, so reads of its data come from farther away than those of
//! a real sibling, which shares all caches.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use daiko::{Builder, Class, JoinHandle};

use super::fibers::Workers;
use crate::experiments::costs::laps::{Laps, SELDOM};
use crate::kit::{Effort, Failure, Sample, SplitMix64};

/// Fibers per worker.
const FIBERS: u64 = 16;
/// How long a fiber of the neighbour runs, in pauses of the processor: about one or two
/// microseconds.
const SLICE: usize = 40;

/// Measures switches between fibers on one of two workers.
pub(super) fn hops<W: Workers>(
    fiber: fn() -> Builder,
    pairing: bool,
    effort: Effort,
) -> Result<Sample, Failure> {
    let runtime = W::builder(2).bind(true).cores([0, 0]).pairing(pairing).build()?;
    let timed = runtime.run(move || beside_a_pair(fiber, effort))?;
    let overtakes: u64 = runtime.counters().iter().map(|worker| worker.overtakes).sum();
    if pairing != (overtakes > 0) {
        return Err(Failure::Broken(format!("{overtakes} fibers have overtaken other fibers")));
    }
    Ok(timed)
}

fn beside_a_pair(fiber: fn() -> Builder, effort: Effort) -> Result<Sample, Failure> {
    let crowd = Arc::new(Crowd::default());
    let mut random = SplitMix64(1);
    let mut classes = || if random.below(2) == 0 { Class::Compute } else { Class::Stall };
    let mut handles = Vec::new();
    for _ in 1..FIBERS {
        handles.push(crowd.spawn(fiber().on(0).class(classes()), Crowd::hop)?);
        handles.push(crowd.spawn(fiber().on(1).class(classes()), Crowd::stay)?);
    }
    let leader = fiber().on(0).class(classes());
    let timed = crowd.spawn(leader, move |crowd| crowd.lead(effort))?.join()?;
    handles.into_iter().try_for_each(|other| other.join().map_err(Failure::from))?;
    Ok(timed)
}

/// State shared by the fibers of both workers.
#[derive(Default)]
struct Crowd {
    /// Number of running fibers, without the leader.
    running: AtomicU64,
    over: AtomicBool,
    /// Switches to the hopping fibers on the leader's worker.
    hops: OwnLine,
}

/// A counter on cache lines that the other worker does not read.
#[derive(Default)]
#[repr(align(128))]
struct OwnLine(AtomicU64);

impl Crowd {
    fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        builder: Builder,
        body: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Failure> {
        let crowd = Arc::clone(self);
        builder.spawn(move || body(&crowd)).map_err(Failure::from)
    }

    /// Body of a fiber on the leader's worker.
    fn hop(&self) {
        // Relaxed, like all accesses here: fibers of one worker write, and each word stands for
        // itself.
        self.running.fetch_add(1, Ordering::Relaxed);
        while !self.over.load(Ordering::Relaxed) {
            self.hops.0.store(self.hops.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            daiko::yield_now();
        }
    }

    /// Body of a fiber on the other worker.
    fn stay(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
        while !self.over.load(Ordering::Relaxed) {
            (0..SLICE).for_each(|_| hint::spin_loop());
            daiko::yield_now();
        }
    }

    /// Body of the fiber that takes the time. A round ends when this fiber runs again. It consists
    /// of that switch and the switches to other fibers in between.
    fn lead(&self, effort: Effort) -> Sample {
        while self.running.load(Ordering::Relaxed) < 2 * (FIBERS - 1) {
            daiko::yield_now();
        }
        let mut laps = Laps::new(effort, SELDOM);
        // The first round is not timed.
        laps.next_round();
        daiko::yield_now();
        self.hops.0.store(0, Ordering::Relaxed);
        while laps.next_round() {
            daiko::yield_now();
        }
        let timed = laps.end(1);
        self.over.store(true, Ordering::Relaxed);
        let hops = timed.rounds + self.hops.0.load(Ordering::Relaxed);
        Sample::timed(timed.rounds, hops, timed.elapsed)
    }
}
