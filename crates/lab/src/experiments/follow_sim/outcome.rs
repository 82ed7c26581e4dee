//! What a simulation has come to.

use super::tally::Tally;
use crate::kit::Latencies;

/// What has happened in simulated time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The wake-ups.
    pub tally: Tally,
    /// Packets that came, and those of them that found a backlog full.
    pub packets: u64,
    /// See `packets`.
    pub dropped: u64,
    /// Time of CPUs that went into packets: interrupts and tasks, other load left out.
    pub busy_ns: u64,
    /// Wake-ups that came before, and do not count.
    pub(super) warm_up: u64,
    /// From a packet's arrival until the task that it wakes runs.
    pub(super) latencies: Latencies,
    pub(super) began: u64,
    pub(super) ended: u64,
}

impl Outcome {
    /// How long it was, in simulated seconds.
    pub fn seconds(&self) -> f64 {
        (self.ended - self.began) as f64 / 1e9
    }
}
