//! Latencies by size: recorded in shared memory at the cost of two stores, and read as percentiles.

use std::sync::atomic::{AtomicU64, Ordering};

use super::case::{Reading, Unit};
use super::shared::Zeroed;

/// Number of leading bits that distinguish values, without the first: a resolution of 1 in 64.
const BITS: u32 = 6;
const PER_POWER: usize = 1 << BITS;
/// Values of this many bits or more, 18 minutes in nanoseconds, count as the largest smaller value.
const MOST_BITS: u32 = 40;
const BUCKETS: usize = (MOST_BITS - BITS + 1) as usize * PER_POWER;

/// The bucket of `value`: one per value at first, then `PER_POWER` per power of two.
fn bucket(value: u64) -> usize {
    let value = value.min((1 << MOST_BITS) - 1);
    let dropped = value.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    dropped as usize * PER_POWER + (value >> dropped) as usize
}

/// The largest value in a bucket.
fn greatest(bucket: usize) -> u64 {
    let dropped = (bucket / PER_POWER).saturating_sub(1);
    let leading = (bucket - dropped * PER_POWER) as u64;
    ((leading + 1) << dropped) - 1
}

/// Counts of latencies. Readers other than the writer read them after the writer has ended.
#[repr(C)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    max: AtomicU64,
}

// SAFETY: all fields are atomics without pointers, for which zero is a valid value.
unsafe impl Zeroed for Histogram {}

impl Histogram {
    /// Counts `value`.
    #[inline]
    pub(crate) fn record(&self, value: u64) {
        let count = &self.counts[bucket(value)];
        // Relaxed, like all accesses here: one process writes, and it ends before another reads.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if value > self.max.load(Ordering::Relaxed) {
            self.max.store(value, Ordering::Relaxed);
        }
    }

    /// Like [`record`](Self::record), but allows several writers at the same time.
    #[inline]
    pub(crate) fn record_shared(&self, value: u64) {
        self.counts[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.max.fetch_max(value, Ordering::Relaxed);
    }

    /// Resets all counts, and touches the pages.
    pub(crate) fn clear(&self) {
        self.counts.iter().chain([&self.max]).for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// The latencies of all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Latencies {
    counts: Box<[u64]>,
    total: u64,
    max: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), total: 0, max: 0 }
    }
}

impl Latencies {
    /// Adds the counts of a client.
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        for (sum, count) in self.counts.iter_mut().zip(&histogram.counts) {
            let count = count.load(Ordering::Relaxed);
            *sum += count;
            self.total += count;
        }
        self.max = self.max.max(histogram.max.load(Ordering::Relaxed));
    }

    /// Adds one latency.
    pub(crate) fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Number of latencies.
    #[cfg(test)]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// A reading of each `stat`: what so many in a thousand do not exceed. None without values.
    pub(crate) fn readings(&self, stats: &[(&str, u64)]) -> Vec<Reading> {
        let reading = |(stat, part): &(&str, u64)| {
            Some(Reading::stat(Unit::Nanoseconds, stat, self.per_mille(*part)? as f64))
        };
        stats.iter().filter_map(reading).collect()
    }

    /// The smallest value that `part` in a thousand do not exceed. It is at most 1 in 64 too large.
    pub(crate) fn per_mille(&self, part: u64) -> Option<u64> {
        let rank = (self.total * part).div_ceil(1000).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(greatest(bucket).min(self.max))
    }

    /// The exact maximum.
    pub(crate) fn max(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::shared::ForkShared;
    use super::*;

    /// Values with all sizes equally likely, which uniformly drawn numbers lack.
    fn latency() -> impl Strategy<Value = u64> {
        (0..MOST_BITS, any::<u64>()).prop_map(|(bits, drawn)| drawn & ((1 << bits) - 1))
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_sorting(mut values in prop::collection::vec(latency(), 1..300)) {
            let histograms = ForkShared::<Histogram>::new(2).unwrap();
            for (index, value) in values.iter().enumerate() {
                match index % 2 {
                    0 => histograms[0].record(*value),
                    _ => histograms[1].record_shared(*value),
                }
            }
            let mut latencies = Latencies::default();
            histograms.iter().for_each(|histogram| latencies.add(histogram));
            values.sort_unstable();
            for part in [1, 500, 990, 999, 1000] {
                let rank = (values.len() as u64 * part).div_ceil(1000).max(1);
                let (exact, found) = (values[rank as usize - 1], latencies.per_mille(part).unwrap());
                prop_assert!(found >= exact && found - exact <= exact / 64, "{part}: {found}, {exact}");
            }
            prop_assert_eq!(latencies.max(), values.last().copied());
        }
    }

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for bucket in 1..BUCKETS {
            assert_eq!(super::bucket(greatest(bucket)), bucket);
            assert_eq!(super::bucket(greatest(bucket - 1) + 1), bucket);
        }
    }

    #[test]
    fn a_value_beyond_all_buckets_is_counted() {
        let mut latencies = Latencies::default();
        latencies.record(u64::MAX);
        assert_eq!(latencies.per_mille(500), Some((1 << MOST_BITS) - 1));
        assert_eq!(latencies.max(), Some(u64::MAX));
    }

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(Latencies::default().per_mille(500), None);
        assert_eq!(Latencies::default().max(), None);
    }

    #[test]
    fn a_cleared_histogram_has_forgotten_all() {
        let histograms = ForkShared::<Histogram>::new(1).unwrap();
        histograms[0].record(70);
        histograms[0].clear();
        let mut latencies = Latencies::default();
        latencies.add(&histograms[0]);
        assert_eq!(latencies.max(), None);
    }
}
