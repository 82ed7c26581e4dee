//! The interface of a method.

use super::cities::Cities;
use super::job::{Prune, Searches, TspJob};
use crate::kit::{Effort, Failure, Reading, Sample, Unit};

/// A kind of threads, or none.
#[derive(Clone, Copy)]
pub(super) struct Searcher {
    pub(super) name: &'static str,
    /// Whether threads share the best tour, and so lock it. There is a point for each [`Prune`]
    /// then.
    pub(super) shares: bool,
    /// Whether it has workers. There is a point for each number of them then.
    pub(super) workers: bool,
    /// Does a job with the given number of workers.
    pub(super) run: fn(&TspJob, usize) -> Result<Searches, Failure>,
}

impl Searcher {
    /// Takes a sample with `cities` cities.
    pub(super) fn sample(
        &self,
        cities: usize,
        prune: Prune,
        workers: usize,
        effort: Effort,
    ) -> Result<Sample, Failure> {
        let job = TspJob { cities: Cities::fixed(cities), prune, effort };
        let Searches { rounds, elapsed, counts } = (self.run)(&job, workers)?;
        let mut sample = Sample::timed(rounds, rounds, elapsed);
        let mut add = |stat, sum: u64| {
            let each = sum as f64 / rounds as f64;
            sample.readings.push(Reading::stat(Unit::Count, stat, each));
        };
        add("nodes", counts.nodes);
        if self.shares {
            add("locks", counts.locks);
        }
        Ok(sample)
    }
}
