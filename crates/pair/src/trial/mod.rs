//! Trial pairing, a repeated A/B trial: short slices with one pairing after another, of which the
//! pairing with the most progress is kept.
//!
//! From A. Snavely and D. M. Tullsen, "Symbiotic jobscheduling for a simultaneous multithreaded
//! processor" (ASPLOS 2000): sample some schedules, optimise, run the best one. Unlike there,
//! progress is measured for each task and divided by the task's own mean over all pairings, so that
//! a task with a small unit has equal weight.

mod trials;

pub use trials::{Trials, Tried};

use daiko_core::place::Site;

/// Largest number of pairings in a trial: SOS found ten to be enough for any number of tasks.
const MOST: usize = 10;
/// Least confidence of a pairing worth keeping.
const LEAST_SURE: f64 = 0.5;
/// Upper bound of confidence, as two slices per pairing prove little.
const SUREST: f64 = 0.95;

/// The index of the site of each task.
pub type Pairing = Vec<usize>;

/// Pairings, and the progress of tasks in those tried so far. Each is tried twice, the second time
/// in reverse order, so that a drift favours none and chance is not mistaken for progress.
#[derive(Clone, Debug)]
pub struct Trial {
    pairings: Vec<Pairing>,
    /// The progress of each task in each slice.
    progress: Vec<Vec<f64>>,
}

/// The pairing that has made the most progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// The pairing.
    pub pairing: Pairing,
    /// Its lead over the mean of all pairings, as a share.
    pub gain: f64,
    /// Confidence from 0 to 1: one minus the chance that one of as many equal pairings would lead
    /// by as much.
    pub confidence: f64,
}

impl Trial {
    /// Creates a trial of `tasks` tasks, each on a site of its own. `None` if there are more tasks
    /// than sites, or all pairings would be equivalent. `seed` selects pairings if there are many.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_core::place::Site;
    /// use daiko_pair::trial::Trial;
    ///
    /// let sites = [0, 0, 1, 1].map(|core| Site { core, node: 0 });
    /// let mut trial = Trial::new(4, &sites, 1).unwrap();
    /// while let Some(pairing) = trial.next() {
    ///     // Tasks 0 and 2 do well together.
    ///     let good = pairing[0] / 2 == pairing[2] / 2;
    ///     trial.record(vec![if good { 2.0 } else { 1.0 }; 4]);
    /// }
    /// let best = trial.best().unwrap();
    /// assert_eq!(best.pairing[0] / 2, best.pairing[2] / 2);
    /// ```
    pub fn new(tasks: usize, sites: &[Site], seed: u64) -> Option<Self> {
        if tasks > sites.len() {
            return None;
        }
        let pairings = some(tasks, sites, seed);
        (pairings.len() > 1).then_some(Self { pairings, progress: Vec::new() })
    }

    /// The next pairing to try; `None` once all were tried.
    pub fn next(&self) -> Option<&Pairing> {
        self.tried_in(self.progress.len()).map(|pairing| &self.pairings[pairing])
    }

    fn tried_in(&self, slice: usize) -> Option<usize> {
        let last = self.pairings.len() * 2 - 1;
        (slice <= last).then(|| slice.min(last - slice))
    }

    /// Records the progress of each task with the next pairing, in any unit per task, for slices of
    /// equal length.
    ///
    /// # Panics
    ///
    /// If there was no next pairing, or for another number of tasks.
    pub fn record(&mut self, progress: Vec<f64>) {
        let next = self.next().expect("a pairing was tried");
        assert_eq!(progress.len(), next.len(), "one for each task");
        self.progress.push(progress);
    }

    /// The pairing with the most progress in total, the first if several are equal. `None` before
    /// all were tried, and if no lead exceeds the difference between slices of one pairing.
    pub fn best(&self) -> Option<Best> {
        if self.next().is_some() {
            return None;
        }
        let (sums, noise) = self.sums();
        let best = (0..sums.len()).rev().max_by(|&a, &b| sums[a].total_cmp(&sums[b]))?;
        let mean = sums.iter().sum::<f64>() / sums.len() as f64;
        let lead = sums[best] - mean;
        // Gaussian noise exceeds this distance with at most half of this chance, on one side; any
        // of the pairings may be the lucky one.
        let chance = sums.len() as f64 * 0.5 * (-(lead / noise).powi(2) / 2.0).exp();
        let confidence = if lead > 0.0 { (1.0 - chance).min(SUREST) } else { 0.0 };
        let gain = if mean > 0.0 { lead / mean } else { 0.0 };
        let pairing = self.pairings[best].clone();
        (confidence >= LEAST_SURE).then_some(Best { pairing, gain, confidence })
    }

    /// The mean progress of each pairing over both slices, with each task relative to its own mean,
    /// and the standard deviation of such a mean.
    fn sums(&self) -> (Vec<f64>, f64) {
        let slices = self.progress.len();
        let mean = |task: usize| {
            self.progress.iter().map(|slice| slice[task]).sum::<f64>() / slices as f64
        };
        let means: Vec<f64> = (0..self.pairings[0].len()).map(mean).collect();
        let relative = |(task, progress): (usize, &f64)| match means[task] > 0.0 {
            true => progress / means[task],
            false => 0.0,
        };
        let sums: Vec<f64> = self
            .progress
            .iter()
            .map(|slice| slice.iter().enumerate().map(relative).sum())
            .collect();
        let twice = || sums.iter().zip(sums.iter().rev()).take(slices / 2);
        let squares = twice().map(|(one, other)| (one - other).powi(2) / 2.0).sum::<f64>();
        let noise = (squares / (slices / 2) as f64 / 2.0).sqrt();
        (twice().map(|(one, other)| (one + other) / 2.0).collect(), noise)
    }
}

/// All pairings if they are few, otherwise a pseudo-random choice; each once. Cores are even: none
/// has a task more while another one with a free site has fewer.
fn some(tasks: usize, sites: &[Site], seed: u64) -> Vec<Pairing> {
    let mut found: Vec<(Vec<Vec<usize>>, Pairing)> = Vec::new();
    let mut draw = Draw(seed);
    let mut order: Vec<usize> = (0..sites.len()).collect();
    // More draws than pairings to find: small numbers of pairings are exhausted.
    for _ in 0..MOST * 20 {
        let pairing = even(tasks, &order, sites);
        let kind = alike(&pairing, sites);
        if found.iter().all(|(known, _)| *known != kind) {
            found.push((kind, pairing));
        }
        if found.len() == MOST {
            break;
        }
        for last in (1..order.len()).rev() {
            order.swap(last, draw.below(last + 1));
        }
    }
    found.into_iter().map(|(_, pairing)| pairing).collect()
}

/// The sites of `order` for so many tasks: the first of each core, then the second of each, and so
/// on.
fn even(tasks: usize, order: &[usize], sites: &[Site]) -> Pairing {
    let rank = |at: &usize| {
        order[..*at].iter().filter(|site| sites[**site].core == sites[order[*at]].core).count()
    };
    let mut places: Vec<usize> = (0..order.len()).collect();
    places.sort_by_cached_key(rank);
    places.truncate(tasks);
    places.sort_unstable();
    places.into_iter().map(|at| order[at]).collect()
}

/// The groups of tasks that share a core, which alone distinguish pairings.
fn alike(pairing: &[usize], sites: &[Site]) -> Vec<Vec<usize>> {
    let core = |task: &usize| sites[pairing[*task]].core;
    let mut tasks: Vec<usize> = (0..pairing.len()).collect();
    tasks.sort_by_key(core);
    let mut groups: Vec<Vec<usize>> =
        tasks.chunk_by(|a, b| core(a) == core(b)).map(<[usize]>::to_vec).collect();
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups.sort();
    groups
}

/// Xorshift (G. Marsaglia, 2003).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.max(1);
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn sites(cores: usize, threads: usize) -> Vec<Site> {
        (0..cores * threads).map(|site| Site { core: site / threads, node: 0 }).collect()
    }

    #[test]
    fn few_pairings_are_all_tried() {
        for (tasks, cores, pairings) in [(3, 2, 3), (4, 2, 3), (4, 3, 6)] {
            let trial = Trial::new(tasks, &sites(cores, 2), 7).unwrap();
            assert_eq!(trial.pairings.len(), pairings, "{tasks} tasks, {cores} cores");
        }
    }

    #[test]
    fn where_nothing_can_be_chosen_nothing_is_tried() {
        assert!(Trial::new(2, &sites(1, 2), 1).is_none(), "one core");
        assert!(Trial::new(2, &sites(4, 1), 1).is_none(), "no siblings");
        assert!(Trial::new(3, &sites(3, 2), 1).is_none(), "no more tasks than cores");
        assert!(Trial::new(5, &sites(2, 2), 1).is_none(), "more tasks than sites");
        assert!(Trial::new(0, &sites(2, 2), 1).is_none());
    }

    /// The best pairing of a trial with this progress of the second of two tasks in its slices.
    fn best(slices: [f64; 4]) -> Option<(usize, Best)> {
        let mut trial = Trial { pairings: vec![vec![0, 1], vec![0, 2]], progress: Vec::new() };
        for slice in slices {
            assert_eq!(trial.best(), None, "not all were tried");
            trial.record(vec![0.0, slice]);
        }
        assert!(trial.next().is_none());
        let best = trial.best()?;
        Some((trial.pairings.iter().position(|pairing| *pairing == best.pairing).unwrap(), best))
    }

    #[test]
    fn a_task_that_does_not_progress_says_nothing() {
        let (pairing, Best { gain, confidence, .. }) = best([3.0, 3.5, 3.5, 3.0]).unwrap();
        assert_eq!((pairing, confidence), (1, SUREST));
        assert!((gain - 0.25 / 3.25).abs() < 1e-9);
    }

    #[test]
    fn a_lead_that_may_be_chance_is_none() {
        assert_eq!(best([3.0, 3.0, 3.0, 3.0]), None);
        assert_eq!(best([0.0, 0.0, 0.0, 0.0]), None);
        assert_eq!(best([3.0, 3.4, 3.1, 3.3]), None, "as much ahead as behind");
        assert_eq!(best([3.0, 4.0, 4.1, 3.1]).map(|(pairing, _)| pairing), Some(1));
        assert_eq!(best([1.0, 2.0, 3.0, 4.0]), None, "all become faster");
    }

    proptest! {
        #[test]
        fn every_pairing_is_valid_and_the_best_has_the_most_progress(
            tasks in 2_usize..9, cores in 2_usize..5, seed: u64,
            values in prop::collection::vec(0.1..10.0_f64, 2 * 8 * MOST),
        ) {
            let sites = sites(cores, 2);
            let Some(mut trial) = Trial::new(tasks, &sites, seed) else { return Ok(()) };
            prop_assert!(trial.pairings.len() <= MOST);
            let mut values = values.chunks(8);
            while let Some(pairing) = trial.next().cloned() {
                let mut used = pairing.clone();
                used.sort_unstable();
                used.dedup();
                prop_assert_eq!(used.len(), tasks);
                let cores_used: BTreeSet<_> = used.iter().map(|site| sites[*site].core).collect();
                prop_assert_eq!(cores_used.len(), tasks.min(cores));
                trial.record(values.next().unwrap().iter().cycle().take(tasks).copied().collect());
            }
            let (sums, _) = trial.sums();
            if let Some(best) = trial.best() {
                let best = trial.pairings.iter().position(|p| *p == best.pairing).unwrap();
                prop_assert!(sums.iter().all(|sum| *sum <= sums[best]));
            }
            // Relative progress is 1 on average for each task.
            let mean = sums.iter().sum::<f64>() / sums.len() as f64;
            prop_assert!((mean - tasks as f64).abs() < 1e-6);
        }
    }
}
