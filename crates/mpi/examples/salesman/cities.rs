//! Cities, and two ways to the shortest tour.

use std::sync::atomic::{AtomicU32, Ordering};

/// More cities take more than a minute.
const MOST: usize = 14;

/// A complete graph with symmetric distances, the same at all ranks.
pub(crate) struct Cities {
    count: usize,
    distances: Vec<u32>,
}

impl Cities {
    pub(crate) fn new(count: usize) -> Result<Self, String> {
        if !(4..=MOST).contains(&count) {
            return Err(format!("{count} cities: name 4 to {MOST}"));
        }
        let mut distances = vec![0; count * count];
        // SplitMix64 (Steele, Lea, Flood 2014).
        let mut state = 1u64;
        for city in 1..count {
            for earlier in 0..city {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut bits = state;
                bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                let distance = 100 + ((bits ^ (bits >> 31)) % 150) as u32;
                distances[city * count + earlier] = distance;
                distances[earlier * count + city] = distance;
            }
        }
        Ok(Cities { count, distances })
    }

    fn between(&self, one: u32, other: u32) -> u32 {
        self.distances[one as usize * self.count + other as usize]
    }

    /// Returns the pairs of cities that a tour can visit first.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let count = self.count as u32;
        let pairs = (1..count).flat_map(move |first| (1..count).map(move |second| (first, second)));
        pairs.filter(|(first, second)| first != second)
    }

    /// Searches all tours that begin with `path`, and lowers `best` to the shortest.
    pub(crate) fn extend(&self, path: &mut Vec<u32>, best: &AtomicU32) {
        let length = path.windows(2).map(|hop| self.between(hop[0], hop[1])).sum();
        self.visit(path, length, best);
    }

    fn visit(&self, path: &mut Vec<u32>, length: u32, best: &AtomicU32) {
        if length >= best.load(Ordering::Relaxed) {
            return;
        }
        let last = path[path.len() - 1];
        if path.len() == self.count {
            best.fetch_min(length + self.between(last, 0), Ordering::Relaxed);
            return;
        }
        for next in 1..self.count as u32 {
            if !path.contains(&next) {
                path.push(next);
                self.visit(path, length + self.between(last, next), best);
                path.pop();
            }
        }
    }

    /// Returns the length of the shortest tour by dynamic programming (Held, Karp 1962).
    pub(crate) fn shortest(&self) -> u32 {
        // By the set of visited cities but 0, and the last of them.
        let cities = self.count - 1;
        let mut shortest = vec![u32::MAX; cities << cities];
        for set in 1usize..1 << cities {
            for last in (0..cities).filter(|last| set >> last & 1 == 1) {
                let before = set & !(1 << last);
                let from = |city: usize| {
                    let so_far = shortest[before * cities + city];
                    so_far + self.between(city as u32 + 1, last as u32 + 1)
                };
                let reached = (0..cities).filter(|city| before >> city & 1 == 1).map(from).min();
                shortest[set * cities + last] =
                    reached.unwrap_or_else(|| self.between(0, last as u32 + 1));
            }
        }
        let all = (1 << cities) - 1;
        let home = |last: usize| shortest[all * cities + last] + self.between(last as u32 + 1, 0);
        (0..cities).map(home).min().expect("there are cities")
    }
}
