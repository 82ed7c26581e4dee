//! A search on the caller's thread: it owns the best tour, and locks nothing.

use super::cities::Cities;
use super::job::{Counts, SearchResult, Searches, TspJob};
use super::method::Searcher;
use super::search::{Best, Tour, search, starts};
use crate::kit::Failure;

pub(super) const METHOD: Searcher =
    Searcher { name: "sequential", shares: false, workers: false, run };

fn run(job: &TspJob, _workers: usize) -> Result<Searches, Failure> {
    job.rounds(|bound| Ok(solve(&job.cities, bound)))
}

/// Finds the shortest tour below `bound`.
pub(super) fn solve(cities: &Cities, bound: u32) -> SearchResult {
    let mut best = Owned(Tour::below(bound));
    let nodes = starts(cities.count()).map(|start| search(cities, start, &mut best)).sum();
    SearchResult { best: best.0, counts: Counts { nodes, locks: 0 } }
}

struct Owned(Tour);

impl Best for Owned {
    #[inline]
    fn rules_out(&mut self, length: u32) -> bool {
        length >= self.0.length
    }

    fn offer(&mut self, tour: &Tour) {
        self.0 = *tour;
    }
}
