//! Sets of cities.

use super::cities::MOST;

const _: () = assert!(MOST <= u16::BITS as usize);

/// A set of cities: bit `c` is set if city `c` is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set(u16);

impl Set {
    /// The cities that a path from city 0 through `count` cities has to visit.
    pub(super) fn but_first(count: usize) -> Self {
        Self(((1u32 << count) - 2) as u16)
    }

    #[inline]
    #[must_use]
    pub(super) fn without(self, city: u8) -> Self {
        Self(self.0 & !(1 << city))
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The cities in ascending order.
    #[inline]
    pub(super) fn cities(self) -> impl Iterator<Item = u8> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let city = (left != 0).then(|| left.trailing_zeros() as u8);
            left &= left.wrapping_sub(1);
            city
        })
    }

    /// This set and all its subsets except the empty one, each after its own subsets.
    pub(super) fn subsets(self) -> impl Iterator<Item = Self> {
        (1..=self.0).filter(move |bits| bits & !self.0 == 0).map(Self)
    }

    /// An index for each set of cities, below `2^MOST`.
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cities(set: Set) -> Vec<u8> {
        set.cities().collect()
    }

    #[test]
    fn a_set_gives_its_cities_in_order() {
        let all = Set::but_first(5);
        assert_eq!(cities(all), [1, 2, 3, 4]);
        assert_eq!(cities(all.without(2).without(2)), [1, 3, 4]);
        assert!(cities(Set::but_first(1)).is_empty() && Set::but_first(1).is_empty());
        assert_eq!(Set::but_first(MOST).cities().count(), MOST - 1);
    }

    #[test]
    fn subsets_come_after_their_own() {
        let subsets: Vec<Set> = Set::but_first(4).without(2).subsets().collect();
        assert_eq!(
            subsets.iter().map(|set| cities(*set)).collect::<Vec<_>>(),
            [vec![1], vec![3], vec![1, 3]]
        );
    }
}
