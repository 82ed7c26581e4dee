//! The search: depth first, every city in turn, and no further along a path
//! that is as long as the best tour already. Nothing else rules a path out.

use super::cities::{Cities, MOST};
use super::set::Set;

/// The two cities that a thread begins with, after city 0.
pub(super) type Start = [u8; 2];

/// All beginnings, in the order of the search: one for every subtree of the
/// second level.
pub(super) fn starts(count: usize) -> impl Iterator<Item = Start> {
    let others = Set::but_first(count);
    others.cities().flat_map(move |one| others.without(one).cities().map(move |two| [one, two]))
}

/// A round trip through all cities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tour {
    pub(super) length: u32,
    /// Begins with city 0; those beyond the number of cities are 0.
    pub(super) order: [u8; MOST],
}

impl Tour {
    /// None yet, and none wanted that is as long as `bound`.
    pub(super) fn below(bound: u32) -> Self {
        Self { length: bound, order: [0; MOST] }
    }
}

/// The best tour so far, as one searcher sees it.
pub(super) trait Best {
    /// Whether a path, or tour, that is so long is not worth following.
    fn rules_out(&mut self, length: u32) -> bool;

    /// A tour that was not ruled out.
    fn offer(&mut self, tour: &Tour);
}

/// Searches all tours that begin with city 0 and `start`. Returns how many nodes
/// it visited: paths of three cities and more that were not ruled out.
pub(super) fn search(cities: &Cities, start: Start, best: &mut impl Best) -> u64 {
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

/// A path from city 0, all but its order.
#[derive(Clone, Copy)]
struct Path {
    last: u8,
    /// How many it visits.
    count: u8,
    /// Those it does not visit.
    left: Set,
    length: u32,
}

impl Path {
    fn new(cities: &Cities) -> Self {
        Self { last: 0, count: 1, left: Set::but_first(cities.count()), length: 0 }
    }

    /// Goes on to one of those left.
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

/// A searcher on its way.
struct Searcher<'a, B> {
    cities: &'a Cities,
    best: &'a mut B,
    /// The path, in front.
    order: [u8; MOST],
    nodes: u64,
}

impl<B: Best> Searcher<'_, B> {
    /// Follows a path that was not ruled out, and is in `order`.
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

    /// A tour that is so long.
    fn close(&mut self, length: u32) {
        if !self.best.rules_out(length) {
            self.best.offer(&Tour { length, order: self.order });
        }
    }
}
