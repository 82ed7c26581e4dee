//! Results of a simulation.

use super::tally::WakeTally;
use crate::kit::Latencies;

/// Counts of events in simulated time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimOutcome {
    /// Counts of wake-ups.
    pub tally: WakeTally,
    /// Packets that arrived, including dropped packets.
    pub packets: u64,
    /// Packets that found a backlog full.
    pub dropped: u64,
    /// CPU time of packets in interrupts and tasks, without other load.
    pub busy_ns: u64,
    /// Earlier wake-ups, which do not count.
    pub(super) warm_up: u64,
    /// From a packet's arrival until the task that it wakes runs.
    pub(super) latencies: Latencies,
    pub(super) began: u64,
    pub(super) ended: u64,
}

impl SimOutcome {
    /// Length in simulated seconds.
    pub fn seconds(&self) -> f64 {
        (self.ended - self.began) as f64 / 1e9
    }
}
