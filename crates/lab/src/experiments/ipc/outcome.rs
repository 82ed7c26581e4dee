//! Combined measurements of all clients of a sample.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::client::ClientTally;
use crate::kit::{Failure, Latencies, Reading, Sample, Spread, Unit};

/// Measurements of the clients, one after the other.
#[derive(Default)]
pub(super) struct IpcOutcome {
    /// Calls of each client in batches.
    calls: Vec<u64>,
    /// Time from the common start to the end of the last batch.
    elapsed_ns: u64,
    /// Nanoseconds per call of each batch.
    round_trips: Vec<f64>,
    /// Latencies of calls that were made one by one.
    pub(super) latencies: Latencies,
}

impl IpcOutcome {
    /// Adds a client that made `calls` calls within `elapsed_ns`, in batches of `batch_calls` that
    /// took `batch_ns` each.
    pub(super) fn add_batches(
        &mut self,
        calls: u64,
        elapsed_ns: u64,
        batch_calls: u64,
        batch_ns: impl Iterator<Item = u64>,
    ) {
        self.calls.push(calls);
        self.elapsed_ns = self.elapsed_ns.max(elapsed_ns);
        self.round_trips.extend(batch_ns.map(|batch| batch as f64 / batch_calls.max(1) as f64));
    }

    /// Adds a client that has ended.
    pub(super) fn add(&mut self, tally: &ClientTally) {
        let [calls, elapsed, batch_calls, batches] =
            [&tally.calls, &tally.elapsed_ns, &tally.batch_calls, &tally.batches]
                .map(|word| word.load(Ordering::Relaxed));
        let batches = &tally.batch_ns[..batches as usize];
        let batch_ns = batches.iter().map(|batch| batch.load(Ordering::Relaxed));
        self.add_batches(calls, elapsed, batch_calls, batch_ns);
        self.latencies.add(&tally.latencies);
    }

    /// Builds the sample. A round is a call.
    pub(super) fn into_sample(self) -> Result<Sample, Failure> {
        let readings = self.readings();
        let none = || Failure::TooShort("no call ended within the time of a sample".into());
        Ok(Sample {
            // Saturating, as another program may have written these numbers.
            rounds: self.calls.iter().fold(0, |sum, calls| sum.saturating_add(*calls)),
            elapsed: Duration::from_nanos(self.elapsed_ns),
            readings: readings.ok_or_else(none)?,
        })
    }

    fn readings(&self) -> Option<Vec<Reading>> {
        let round_trip = Spread::of(self.round_trips.clone())?.median;
        let slowest = *self.calls.iter().min()? as f64;
        let calls = self.calls.iter().map(|calls| *calls as f64).sum::<f64>().max(1.0);
        let mean = calls / self.calls.len() as f64;
        let longest = self.latencies.max()? as f64;
        let mut readings = vec![Reading::new(Unit::Nanoseconds, round_trip)];
        readings.extend(self.latencies.readings(&[("p50", 500), ("p99", 990), ("p999", 999)]));
        readings.extend([
            Reading::stat(Unit::Nanoseconds, "max", longest),
            Reading::rate("throughput", calls, self.elapsed_ns),
            Reading::stat(Unit::Ratio, "share", slowest / mean),
        ]);
        Some(readings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_of_all_clients() {
        let mut outcome = IpcOutcome::default();
        outcome.add_batches(30, 900, 10, [100, 200, 400].into_iter());
        outcome.add_batches(10, 1000, 5, [500, 10_000].into_iter());
        (1..=1000).for_each(|latency| outcome.latencies.record(latency.min(100)));
        let sample = outcome.into_sample().unwrap();
        assert_eq!((sample.rounds, sample.elapsed), (40, Duration::from_nanos(1000)));
        let values: Vec<f64> = sample.readings.iter().map(|reading| reading.value).collect();
        // Batches of 10, 20, 40, 100 and 2000 ns a call; 40 calls in 1 us; 10 of 20.
        assert_eq!(values, [40.0, 100.0, 100.0, 100.0, 100.0, 4e7, 0.5]);
    }

    #[test]
    fn without_a_call_there_is_no_sample() {
        let mut outcome = IpcOutcome::default();
        outcome.add_batches(0, 0, 1, [].into_iter());
        assert!(matches!(outcome.into_sample(), Err(Failure::TooShort(_))));
    }
}
