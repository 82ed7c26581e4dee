//! The search: depth first, every city in turn. A path is left when it is as long as the best tour
//! so far. No other rule excludes a path.

use super::cities::{Cities, MOST};
use super::set::Set;

/// The first two cities of a thread's tours, after city 0.
pub(super) type TourStart = [u8; 2];

/// Iterates over all starts in the order of the search: one for every subtree of the second level.
pub(super) fn starts(count: usize) -> impl Iterator<Item = TourStart> {
    let rest = Set::but_first(count);
    rest.cities().flat_map(move |one| rest.without(one).cities().map(move |two| [one, two]))
}

/// A round trip through all cities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tour {
    pub(super) length: u32,
    /// Begins with city 0; entries beyond the number of cities are 0.
    pub(super) order: [u8; MOST],
}

impl Tour {
    /// A placeholder that rules out all tours with a length of `bound` or more.
    pub(super) fn below(bound: u32) -> Self {
        Self { length: bound, order: [0; MOST] }
    }
}

/// The best tour so far, as seen by one searcher.
pub(super) trait Best {
    /// Whether a path or tour of this length is not worth following.
    fn rules_out(&mut self, length: u32) -> bool;

    /// Offers a tour that was not ruled out.
    fn offer(&mut self, tour: &Tour);
}

/// Searches all tours that begin with city 0 and `start`. Returns the number of visited nodes:
/// paths of three and more cities that were not ruled out.
pub(super) fn search(cities: &Cities, start: TourStart, best: &mut impl Best) -> u64 {
    let path = start.iter().fold(Path::new(cities), |path, &city| path.to(city, cities));
    if best.rules_out(path.length) {
        return 0;
    }
    let mut order = [0; MOST];
    order[1..=start.len()].copy_from_slice(&start);
    let mut searcher = Searcher { cities, best, order, nodes: 0 };
    searcher.visit(path);
    searcher.nodes
}

/// A path from city 0, without its order.
#[derive(Clone, Copy)]
struct Path {
    last: u8,
    /// Number of visited cities.
    count: u8,
    /// Cities not visited.
    left: Set,
    length: u32,
}

impl Path {
    fn new(cities: &Cities) -> Self {
        Self { last: 0, count: 1, left: Set::but_first(cities.count()), length: 0 }
    }

    /// Extends the path by one of the cities left.
    #[inline]
    fn to(self, city: u8, cities: &Cities) -> Self {
        Self {
            last: city,
            count: self.count + 1,
            left: self.left.without(city),
            length: self.length + cities.between(self.last, city),
        }
    }
}

/// A searcher's state.
struct Searcher<'a, B> {
    cities: &'a Cities,
    best: &'a mut B,
    /// The cities of the path come first.
    order: [u8; MOST],
    nodes: u64,
}

impl<B: Best> Searcher<'_, B> {
    /// Follows the path in `order`, which was not ruled out.
    fn visit(&mut self, path: Path) {
        self.nodes += 1;
        if path.left.is_empty() {
            return self.close(path.length + self.cities.between(path.last, 0));
        }
        for city in path.left.cities() {
            let next = path.to(city, self.cities);
            if !self.best.rules_out(next.length) {
                self.order[usize::from(path.count)] = city;
                self.visit(next);
            }
        }
    }

    /// Offers the complete tour of this length unless it is ruled out.
    fn close(&mut self, length: u32) {
        if !self.best.rules_out(length) {
            self.best.offer(&Tour { length, order: self.order });
        }
    }
}
