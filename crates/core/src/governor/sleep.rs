//! The cost of a sleep: the time from the wake of a thread until it runs.

use crate::atomic::{AtomicU64, Ordering};

/// A longer time is taken for this: a thread that another one keeps from its CPU.
const LONGEST_NS: u64 = 1_000_000;
/// The cost before any was seen, in nanoseconds.
const ASSUMED_NS: u64 = 5_000;

/// The mean of the last costs of a sleep, and their mean deviation from it. Threads that note a
/// cost at the same time may lose one.
#[derive(Debug)]
pub struct SleepCost {
    mean_ns: AtomicU64,
    deviation_ns: AtomicU64,
}

impl SleepCost {
    /// Creates an assumed cost.
    pub fn new() -> Self {
        SleepCost { mean_ns: AtomicU64::new(ASSUMED_NS), deviation_ns: AtomicU64::new(ASSUMED_NS) }
    }

    /// Notes the cost of one sleep.
    pub fn note(&self, cost_ns: u64) {
        let (cost, mean) = (cost_ns.min(LONGEST_NS), self.mean_ns());
        // Relaxed: a statistic. As a retransmission timer does (RFC 6298).
        let deviation = self.deviation_ns.load(Ordering::Relaxed);
        self.deviation_ns.store((3 * deviation + cost.abs_diff(mean)) / 4, Ordering::Relaxed);
        self.mean_ns.store((7 * mean + cost) / 8, Ordering::Relaxed);
    }

    /// Returns the mean of the last costs, in nanoseconds.
    pub fn mean_ns(&self) -> u64 {
        self.mean_ns.load(Ordering::Relaxed)
    }

    /// Returns a cost that few sleeps exceed, in nanoseconds.
    pub fn most_ns(&self) -> u64 {
        self.mean_ns() + 4 * self.deviation_ns.load(Ordering::Relaxed)
    }
}

impl Default for SleepCost {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn costs_that_do_not_vary_are_the_mean_and_the_most() {
        let cost = SleepCost::new();
        (0..200).for_each(|_| cost.note(40_000));
        assert!((39_900..=40_000).contains(&cost.mean_ns()), "{}", cost.mean_ns());
        assert!(cost.most_ns() < 41_000, "{}", cost.most_ns());
    }

    #[test]
    fn few_costs_exceed_the_most() {
        let cost = SleepCost::new();
        (0..100).for_each(|number| cost.note(10_000 + 1_000 * (number % 7)));
        assert!((11_000..15_000).contains(&cost.mean_ns()), "{}", cost.mean_ns());
        assert!((16_000..30_000).contains(&cost.most_ns()), "{}", cost.most_ns());
        cost.note(u64::MAX);
        assert!(cost.mean_ns() < 150_000, "{}", cost.mean_ns());
    }
}
