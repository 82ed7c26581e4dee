//! A sample: consecutive searches, each timed and checked.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use super::cities::Cities;
use super::optimum;
use super::search::Tour;
use crate::kit::{Choice, Effort, Failure};

/// A searcher's way to learn the length of the best tour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prune {
    /// From a copy outside the lock, by a relaxed load.
    Relaxed,
    /// Under the lock, each time.
    Locked,
}

impl Choice for Prune {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Relaxed, "relaxed"), (Self::Locked, "locked")];
}

/// The problem, and the way to solve it.
#[derive(Clone, Debug)]
pub(super) struct TspJob {
    pub(super) cities: Cities,
    /// Used by methods with threads that share the best tour.
    pub(super) prune: Prune,
    pub(super) effort: Effort,
}

/// Work done by a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of paths that were not ruled out.
    pub(super) nodes: u64,
    /// Number of lock calls.
    pub(super) locks: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.locks += other.locks;
    }
}

/// Result of a search.
pub(super) struct SearchResult {
    pub(super) best: Tour,
    pub(super) counts: Counts,
}

/// All searches of a sample.
#[derive(Debug)]
pub(super) struct Searches {
    pub(super) rounds: u64,
    pub(super) elapsed: Duration,
    pub(super) counts: Counts,
}

impl TspJob {
    /// Calls `solve` with a bound for as many rounds as the time allows, at least one.
    ///
    /// The first call is not timed. Its bound rules everything out, but threads are created, so the
    /// timed calls find the stacks and other objects that a library keeps for reuse.
    pub(super) fn rounds(
        &self,
        mut solve: impl FnMut(u32) -> Result<SearchResult, Failure>,
    ) -> Result<Searches, Failure> {
        let shortest = optimum::length(&self.cities);
        solve(0)?;
        let (mut rounds, mut counts) = (0, Counts::default());
        let start = Instant::now();
        while rounds == 0 || rounds < self.effort.rounds && start.elapsed() < self.effort.limit {
            let found = solve(u32::MAX)?;
            self.check(&found.best, shortest)?;
            counts += found.counts;
            rounds += 1;
        }
        Ok(Searches { rounds, elapsed: start.elapsed(), counts })
    }

    /// Fails unless `tour` is a shortest one. Takes a few nanoseconds, within the time of a round.
    fn check(&self, tour: &Tour, shortest: u32) -> Result<(), Failure> {
        let order = &tour.order[..self.cities.count()];
        let visited = order.iter().fold(0u32, |visited, city| visited | 1 << city);
        let all = visited == (1 << order.len()) - 1;
        if all && tour.length == shortest && self.cities.around(order) == shortest {
            return Ok(());
        }
        Err(Failure::Broken(format!(
            "found a tour {order:?} of length {}, where the shortest has {shortest}",
            tour.length
        )))
    }
}
