//! The best tour that threads share, under a lock of their library.

use std::sync::atomic::{AtomicU32, Ordering};

use super::cities::Cities;
use super::job::{Counts, Prune};
use super::search::{Best, Tour, TourStart, search};

/// A library's mutex around the best tour.
pub(super) trait Lock: Sync {
    fn new(best: Tour) -> Self;

    /// Calls `look` with exclusive access to the tour.
    fn with<R>(&self, look: impl FnOnce(&mut Tour) -> R) -> R;
}

/// State shared by all threads of one search.
pub(super) struct SearchShared<L> {
    cities: Cities,
    prune: Prune,
    /// The length of `best`, or for a moment that of its predecessor; the holder of the lock writes
    /// it. It only shrinks and publishes no other data: a tour that it does not rule out is checked
    /// again under the lock.
    length: AtomicU32,
    best: Apart<L>,
}

/// A value on cache lines of its own, including the line that the adjacent-line prefetcher fetches:
/// the lock is written, while the rest is only read.
#[repr(align(128))]
struct Apart<L>(L);

impl<L: Lock> SearchShared<L> {
    /// State before a search for tours below `bound`.
    pub(super) fn new(cities: &Cities, prune: Prune, bound: u32) -> Self {
        Self {
            cities: cities.clone(),
            prune,
            length: AtomicU32::new(bound),
            best: Apart(L::new(Tour::below(bound))),
        }
    }

    /// Runs a thread's part: all tours that begin with `start`.
    pub(super) fn search(&self, start: TourStart) -> Counts {
        match self.prune {
            Prune::Relaxed => self.search_as::<false>(start),
            Prune::Locked => self.search_as::<true>(start),
        }
    }

    /// Compiled twice: with a lock in its loop, the search that does not lock would be slower.
    fn search_as<const LOCKED: bool>(&self, start: TourStart) -> Counts {
        let mut view = View::<_, LOCKED> { shared: self, locks: 0 };
        let nodes = search(&self.cities, start, &mut view);
        Counts { nodes, locks: view.locks }
    }

    /// The best tour. Once all threads have ended, this is the shortest.
    pub(super) fn best(&self) -> Tour {
        self.best.0.with(|best| *best)
    }

    /// Rules out all tours, so that the threads end soon.
    pub(super) fn give_up(&self) {
        self.improve(&Tour::below(0));
    }

    fn improve(&self, tour: &Tour) {
        self.best.0.with(|best| {
            if tour.length < best.length {
                *best = *tour;
                // Relaxed: see the field.
                self.length.store(tour.length, Ordering::Relaxed);
            }
        });
    }
}

/// One thread's view of the shared state; if `LOCKED`, it reads under the lock only.
struct View<'a, L, const LOCKED: bool> {
    shared: &'a SearchShared<L>,
    /// Number of locks by this thread.
    locks: u64,
}

impl<L: Lock, const LOCKED: bool> Best for View<'_, L, LOCKED> {
    #[inline]
    fn rules_out(&mut self, length: u32) -> bool {
        if LOCKED {
            self.locks += 1;
            return self.shared.best.0.with(|best| length >= best.length);
        }
        // Relaxed: see the field.
        length >= self.shared.length.load(Ordering::Relaxed)
    }

    #[cold]
    fn offer(&mut self, tour: &Tour) {
        self.locks += 1;
        self.shared.improve(tour);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Another thread improved the tour after this one had looked.
    #[test]
    fn a_tour_that_is_offered_too_late_changes_nothing() {
        let shared = SearchShared::<Mutex<Tour>>::new(&Cities::fixed(6), Prune::Relaxed, u32::MAX);
        let mut relaxed = View::<_, false> { shared: &shared, locks: 0 };
        let mut locked = View::<_, true> { shared: &shared, locks: 0 };
        for length in [10, 12, 11] {
            relaxed.offer(&Tour::below(length));
        }
        assert_eq!(shared.best().length, 10);
        assert!(relaxed.rules_out(10) && !relaxed.rules_out(9));
        assert!(locked.rules_out(10) && !locked.rules_out(9));
    }
}
