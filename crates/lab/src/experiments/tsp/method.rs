//! What a method has to offer.

use super::cities::Cities;
use super::job::{Job, Prune, Searches};
use crate::kit::{Effort, Failure, Reading, Sample, Unit};

/// A way to have threads, or none.
#[derive(Clone, Copy)]
pub(super) struct Searcher {
    pub(super) name: &'static str,
    /// Whether threads share the best tour, and so lock it: a point for each
    /// [`Prune`].
    pub(super) shares: bool,
    /// Whether it has workers: a point for each number of them.
    pub(super) workers: bool,
    /// Does a job, with so many workers.
    pub(super) run: fn(&Job, usize) -> Result<Searches, Failure>,
}

impl Searcher {
    /// Searches tours round so many cities.
    pub(super) fn sample(
        &self,
        cities: usize,
        prune: Prune,
        workers: usize,
        effort: Effort,
    ) -> Result<Sample, Failure> {
        let job = Job { cities: Cities::fixed(cities), prune, effort };
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
