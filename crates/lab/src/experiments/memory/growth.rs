//! The growth of a process by threads that are suspended.

use std::hint::black_box;
use std::process;

use crate::kit::{Conductor, Failure, free_memory};

/// A measurement while threads are suspended, in bytes.
pub(super) type MemoryProbe = fn() -> Result<u64, Failure>;

/// Resident bytes of this process, plus those of its page tables.
pub(super) fn resident_bytes() -> Result<u64, Failure> {
    free_memory::resident_bytes(process::id())
}

/// Creates places for `count` handles, in resident memory.
pub(super) fn places<T>(count: usize) -> Vec<Option<T>> {
    // Opaque to the compiler: otherwise it would request zeroed memory, which is not resident.
    (0..count).map(|_| black_box(None)).collect()
}

/// Returns the bytes by which the process grows with `count` suspended threads. `suspended` calls
/// the look that it is given when a thread waits in each of the places.
pub(super) fn growth<T>(
    count: usize,
    suspended: impl Fn(&mut [Option<T>], MemoryProbe) -> Result<u64, Failure>,
) -> Result<u64, Failure> {
    let mut places = places(count);
    suspended(&mut places[..1], || Ok(0))?;
    let before = resident_bytes()?;
    let after = suspended(&mut places, resident_bytes)?;
    Ok(after.saturating_sub(before))
}

/// Creates a thread for each of the places, and calls `look` when all have arrived.
pub(super) fn fill<T>(
    places: &mut [Option<T>],
    conductor: &Conductor,
    look: MemoryProbe,
    mut create: impl FnMut(usize) -> Result<T, Failure>,
) -> Result<u64, Failure> {
    for (index, place) in places.iter_mut().enumerate() {
        *place = Some(create(index)?);
    }
    conductor.wait_assembled();
    look()
}
