//! Cities and the distances between them.

use crate::kit::SplitMix64;

/// Largest number of cities. More cities take more than a minute.
pub(super) const MOST: usize = 14;

/// Seed of all distances, so that every method solves the same problem.
const SEED: u64 = 1;

/// Distances are at least `NEAR` and below `FAR`. The closer together these are, the later a path
/// is ruled out by its length, and the longer the search takes.
const NEAR: u64 = 100;
const FAR: u64 = 250;

/// A complete graph with symmetric distances.
#[derive(Clone, Debug)]
pub(super) struct Cities {
    count: usize,
    distances: [[u32; MOST]; MOST],
}

impl Cities {
    /// The measured problem of `count` cities: that of one city fewer, plus another city.
    pub(super) fn fixed(count: usize) -> Self {
        Self::drawn(count, SEED)
    }

    /// A problem with random distances from `seed`.
    pub(super) fn drawn(count: usize, seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        Self::new(count, || (NEAR + random.below(FAR - NEAR)) as u32)
    }

    /// A problem with distances from `next`: those of a city to all earlier cities, city by city.
    pub(super) fn new(count: usize, mut next: impl FnMut() -> u32) -> Self {
        let mut distances = [[0; MOST]; MOST];
        let pairs = (1..count).flat_map(|city| (0..city).map(move |earlier| (city, earlier)));
        for (city, earlier) in pairs {
            let distance = next();
            distances[city][earlier] = distance;
            distances[earlier][city] = distance;
        }
        Self { count, distances }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn between(&self, one: u8, other: u8) -> u32 {
        self.distances[usize::from(one)][usize::from(other)]
    }

    /// Length of the tour that visits the cities in this order and returns.
    pub(super) fn around(&self, order: &[u8]) -> u32 {
        let next = order.iter().cycle().skip(1);
        order.iter().zip(next).map(|(&one, &other)| self.between(one, other)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_the_same_there_and_back() {
        let cities = Cities::fixed(MOST);
        for one in 0..MOST as u8 {
            assert_eq!(cities.between(one, one), 0);
            for other in 0..one {
                assert_eq!(cities.between(one, other), cities.between(other, one));
                assert!((NEAR..FAR).contains(&cities.between(one, other).into()));
            }
        }
    }

    #[test]
    fn an_added_city_moves_no_other_city() {
        let (fewer, more) = (Cities::fixed(9), Cities::fixed(10));
        for one in 0..9 {
            for other in 0..9 {
                assert_eq!(fewer.between(one, other), more.between(one, other));
            }
        }
        assert!(more.between(9, 0) > 0);
    }

    #[test]
    fn a_tour_returns_to_where_it_began() {
        let mut distances = [1, 20, 300].into_iter();
        let cities = Cities::new(3, || distances.next().expect("three distances"));
        assert_eq!(cities.around(&[0, 1, 2]), 321);
        assert_eq!(cities.around(&[0, 1]), 2);
    }
}
