//! Parked fibers of a runtime with one worker.

use std::sync::Arc;

use daiko::{JoinHandle, Runtime};

use super::growth::{self, MemoryProbe};
use crate::kit::{Conductor, Failure, FiberKind};

/// Returns by how many bytes the process grows with `count` suspended fibers on stacks of `stack`
/// bytes.
pub(super) fn growth(kind: FiberKind, count: usize, stack: usize) -> Result<u64, Failure> {
    let runtime = Runtime::builder().workers(1).stack_size(stack).build()?;
    growth::growth(count, |places, look| suspended(&runtime, kind, places, look))
}

/// Calls `look` while a fiber waits in each of the places.
fn suspended(
    runtime: &Runtime,
    kind: FiberKind,
    places: &mut [Option<JoinHandle<()>>],
    look: MemoryProbe,
) -> Result<u64, Failure> {
    let conductor = Arc::new(Conductor::default());
    let count = places.len();
    let looked = growth::fill(places, &conductor, look, |_| {
        let conductor = Arc::clone(&conductor);
        // SAFETY: `wait` uses no thread-local but those of the runtime.
        let builder = unsafe { kind.builder() };
        Ok(runtime.spawn_with(builder, move || wait(&conductor, count))?)
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
