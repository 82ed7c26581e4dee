//! Parked fibers of a runtime with one worker.

use std::sync::Arc;

use daiko::{Builder, JoinHandle, Runtime};

use super::growth::{self, MemoryProbe};
use crate::kit::{Conductor, Failure};

/// Returns by how many bytes the process grows with `count` suspended fibers.
pub(super) fn growth(count: usize) -> Result<u64, Failure> {
    let runtime = Runtime::builder().workers(1).stack_size(64 << 10).build()?;
    growth::growth(count, |places, look| suspended(&runtime, places, look))
}

/// Calls `look` while a fiber waits in each of the places.
fn suspended(
    runtime: &Runtime,
    places: &mut [Option<JoinHandle<()>>],
    look: MemoryProbe,
) -> Result<u64, Failure> {
    let conductor = Arc::new(Conductor::default());
    let count = places.len();
    let looked = growth::fill(places, &conductor, look, |_| {
        let conductor = Arc::clone(&conductor);
        Ok(runtime.spawn_with(Builder::new(), move || wait(&conductor, count))?)
    });
    conductor.halt();
    places.iter().flatten().for_each(|fiber| fiber.fiber().unpark());
    for fiber in places.iter_mut().filter_map(Option::take) {
        fiber.join()?;
    }
    looked
}

fn wait(conductor: &Conductor, count: usize) {
    conductor.arrive(count);
    while !conductor.halted() {
        daiko::park();
    }
}
