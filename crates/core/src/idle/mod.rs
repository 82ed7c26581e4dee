//! The set of parked workers, so that new work for any worker unparks one of them, and costs
//! nothing if none is parked.
//!
//! README.md beside this file has the steps and the proof. Mail needs none of this: the inbox word
//! itself says that its owner is parked.

use crate::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::barrier::Barrier;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Largest number of workers in a set.
pub const MAX_WORKERS: usize = 64 * WORDS;

const WORDS: usize = if cfg!(loom) { 1 } else { 16 };

/// The set of parked workers, a bit for each.
#[derive(Debug)]
#[repr(align(64))]
pub struct IdleSet {
    words: [AtomicU64; WORDS],
    /// Number of words that have a worker.
    used: AtomicUsize,
}

impl IdleSet {
    /// Creates an empty set for workers `0..workers`.
    ///
    /// # Panics
    ///
    /// If `workers` exceeds [`MAX_WORKERS`].
    pub fn new(workers: usize) -> Self {
        assert!(workers <= MAX_WORKERS, "at most {MAX_WORKERS} workers");
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Self { words, used: AtomicUsize::new(workers.div_ceil(64)) }
    }

    /// Makes room for workers `0..workers`, before those that are new announce themselves.
    ///
    /// # Panics
    ///
    /// If `workers` exceeds [`MAX_WORKERS`].
    pub fn grow(&self, workers: usize) {
        assert!(workers <= MAX_WORKERS, "at most {MAX_WORKERS} workers");
        // Relaxed: the barrier in `announce` orders it before the looks of a new worker.
        self.used.fetch_max(workers.div_ceil(64), Ordering::Relaxed);
    }

    /// Returns the words that have a worker.
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // Relaxed: behind the barrier in `has_any`, as the words themselves.
        &self.words[..self.used.load(Ordering::Relaxed)]
    }

    /// Announces that `worker` is about to park. It then looks at every source of work that is
    /// filled without mail, and parks only if all are empty; otherwise it
    /// [retracts](Self::retract).
    pub fn announce(&self, worker: usize, barrier: &impl Barrier) {
        let (word, bit) = self.place(worker);
        // Relaxed: the barrier orders it before the looks that follow.
        word.fetch_or(bit, Ordering::Relaxed);
        if !cfg!(weaken = "idle-barrier") {
            // Pairs with the light half in `has_any`.
            barrier.heavy();
        }
    }

    /// Takes `worker` back, because it found work or was unparked by other means.
    ///
    /// Returns false if a maker of work picked it meanwhile: that unpark is spent on this worker,
    /// which must look for work (again) before it parks.
    #[must_use = "a worker that was picked looks for work before it parks"]
    pub fn retract(&self, worker: usize) -> bool {
        let (word, bit) = self.place(worker);
        // Acquire: pairs with the Release in `pick_from`: a picked worker sees the work.
        word.fetch_and(!bit, Ordering::Acquire) & bit != 0
    }

    /// Returns true if the set has a worker, for a caller that has just made work available to all:
    /// else there is none to [pick](Self::pick_one). Cost without `membarrier`: a fence.
    #[inline]
    pub fn has_any(&self, barrier: &impl Barrier) -> bool {
        let early = cfg!(weaken = "idle-grow").then(|| self.words());
        // Pairs with the heavy half in `announce`: either the bit is seen here, or the worker sees
        // the work.
        barrier.light();
        let words = early.unwrap_or_else(|| self.words());
        words.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Takes one parked worker out of the set, for a caller that has just made work available to
    /// all. The caller unparks it, in a way that also reaches a worker that is not asleep yet.
    ///
    /// The lowest index comes first, so that under little load the same few workers stay awake; of
    /// each 64 workers, the lowest that is `preferred`, if one is.
    pub fn pick_one(
        &self,
        barrier: &impl Barrier,
        preferred: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.pick_one_below(MAX_WORKERS, barrier, preferred)
    }

    /// Takes a worker out as [`pick_one`](Self::pick_one) does, of those below `end`.
    pub fn pick_one_below(
        &self,
        end: usize,
        barrier: &impl Barrier,
        preferred: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if !self.has_any(barrier) {
            return None;
        }
        let mut words = self.words().iter().zip((0..).step_by(64));
        words.find_map(|(word, first)| {
            let suits = match end.saturating_sub(first) {
                64.. => u64::MAX,
                some => (1 << some) - 1,
            };
            Self::pick_from(word, suits, |bit| preferred(first + bit)).map(|bit| first + bit)
        })
    }

    fn pick_from(word: &AtomicU64, suits: u64, preferred: impl Fn(usize) -> bool) -> Option<usize> {
        let mut seen = word.load(Ordering::Relaxed) & suits;
        while seen != 0 {
            let mut bits = (0..64).filter(|bit| seen & 1 << bit != 0);
            let bit = bits.find(|bit| preferred(*bit)).unwrap_or(seen.trailing_zeros() as usize);
            // Release: pairs with the Acquire in `retract`.
            seen = word.fetch_and(!(1 << bit), Ordering::Release);
            if seen & 1 << bit != 0 {
                return Some(bit);
            }
            seen &= suits;
        }
        None
    }

    /// Returns true if `worker` is in the set.
    pub fn contains(&self, worker: usize) -> bool {
        let (word, bit) = self.place(worker);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Returns the number of workers that were in the set a moment ago.
    pub fn len(&self) -> usize {
        self.words().iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Returns true if no worker was in the set a moment ago.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, worker: usize) -> (&AtomicU64, u64) {
        (&self.words[worker / 64], 1 << (worker % 64))
    }
}
