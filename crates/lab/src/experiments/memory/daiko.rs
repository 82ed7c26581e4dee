//! Parked fibers of a runtime with one worker.

use std::sync::Arc;

use daiko::{Builder, JoinHandle, Runtime};

use super::resident::{places, resident_bytes};
use crate::kit::{Conductor, Failure};

/// Returns by how many bytes the process grows with `count` suspended fibers.
pub(super) fn growth(count: usize) -> Result<u64, Failure> {
    let runtime = Runtime::builder().workers(1).build()?;
    let mut places = places(count);
    suspended(&runtime, &mut places[..1], || ())?;
    let before = resident_bytes()?;
    let after = suspended(&runtime, &mut places, resident_bytes)??;
    Ok(after.saturating_sub(before))
}

/// Calls `look` while a fiber waits in each of the places.
fn suspended<R>(
    runtime: &Runtime,
    places: &mut [Option<JoinHandle<()>>],
    look: impl FnOnce() -> R,
) -> Result<R, Failure> {
    let conductor = Arc::new(Conductor::default());
    let (count, mut refused) = (places.len(), None);
    for place in places.iter_mut() {
        let conductor = Arc::clone(&conductor);
        match runtime.spawn_with(Builder::new(), move || wait(&conductor, count)) {
            Ok(fiber) => *place = Some(fiber),
            Err(error) => {
                refused = Some(error.into());
                break;
            }
        }
    }
    let looked = refused.map_or_else(
        || {
            conductor.wait_assembled();
            Ok(look())
        },
        Err,
    );
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
