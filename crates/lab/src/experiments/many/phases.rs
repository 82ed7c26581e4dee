//! The phases of parked threads, and the lengths of sleeps.

use std::time::Duration;

use crate::kit::SplitMix64;

/// The shortest sleep.
pub(super) const SHORTEST: Duration = Duration::from_millis(500);

/// The times of the phases, and the memory while all are suspended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phases {
    pub(super) start: Duration,
    pub(super) wake: Duration,
    pub(super) join: Duration,
    /// Resident bytes while all are suspended.
    pub(super) resident: u64,
}

/// The lengths of all sleeps, the same for all methods.
pub(super) fn sleeps(threads: usize) -> impl Iterator<Item = Duration> {
    let mut random = SplitMix64(2);
    (0..threads).map(move |_| SHORTEST.mul_f64(1.0 + random.unit()))
}

/// Takes the ended threads from the front of `left`; returns true if none is left. Each thread is
/// looked at once, and the first that runs once more for each call.
pub(super) fn all_ended<T>(left: &mut &[T], has_ended: impl Fn(&T) -> bool) -> bool {
    let ended = left.iter().take_while(|thread| has_ended(thread)).count();
    *left = &left[ended..];
    left.is_empty()
}
