//! Pseudo-random times and events.

use crate::kit::SplitMix64;

const QUANTILES: usize = 1024;
/// Unit of the quantiles: they are multiples of the mean divided by this number.
const ONE: u64 = 1 << 20;

/// Random draws of a simulation, reproducible by the seed.
pub(super) struct Draw {
    random: SplitMix64,
    /// Quantiles of the exponential distribution: the middle of each of `QUANTILES` equal parts.
    quantiles: Box<[u32; QUANTILES]>,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        let middle = |index| (index as f64 + 0.5) / QUANTILES as f64;
        let exact: [f64; QUANTILES] = std::array::from_fn(|index| -(1.0 - middle(index)).ln());
        // The tails are cut off, so the mean is slightly below 1 before this correction.
        let mean = exact.iter().sum::<f64>() / QUANTILES as f64;
        let quantile = |value: f64| (value / mean * ONE as f64).round() as u32;
        Self { random: SplitMix64(seed), quantiles: Box::new(exact.map(quantile)) }
    }

    /// Draws an exponentially distributed time, such as the gap between events of a Poisson
    /// process. It is at most 7.6 times the `mean`, which is below 2^40.
    #[inline]
    pub(super) fn exponential(&mut self, mean: u64) -> u64 {
        let index = self.random.next() as usize % QUANTILES;
        (mean * u64::from(self.quantiles[index])) >> ONE.ilog2()
    }

    /// Draws a number below `bound`.
    #[inline]
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.random.below(bound.into()) as u32
    }

    /// Draws an event with probability `of_2_32` / 2^32.
    #[inline]
    pub(super) fn happens(&mut self, of_2_32: u32) -> bool {
        ((self.random.next() >> 32) as u32) < of_2_32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_mean_and_the_tail_of_the_exponential_distribution() {
        let mut draw = Draw::new(1);
        let times: Vec<u64> = (0..200_000).map(|_| draw.exponential(10_000)).collect();
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
        assert!((9_900.0..10_100.0).contains(&mean), "{mean}");
        let long = times.iter().filter(|time| **time > 20_000).count() as f64 / times.len() as f64;
        assert!((0.13..0.14).contains(&long), "{long}: exp(-2) is 0.135");
        assert_eq!(draw.exponential(0), 0);
    }

    #[test]
    fn chances_are_met() {
        let mut draw = Draw::new(1);
        let mut share = |of| (0..100_000).filter(|_| draw.happens(of)).count();
        assert_eq!(share(0), 0);
        assert!((24_000..26_000).contains(&share(1 << 30)));
    }
}
