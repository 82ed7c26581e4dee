//! Successors in the ring.

use super::case::Choice;
use super::random::SplitMix64;

/// Seed of every shuffled cycle, so that all methods on all machines run the same ring.
const SEED: u64 = 0x6461_696B_6F20_5031;

/// The order of the threads in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// A fixed shuffle: neither the allocator nor a prefetcher can predict the successor.
    Shuffled,
    /// Thread `i + 1` follows thread `i`.
    Sequential,
}

impl Choice for Order {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Shuffled, "shuffled"), (Self::Sequential, "sequential")];
}

impl Order {
    /// Builds the table in which thread `successors(n)[i]` gets the datum from thread `i`: one
    /// cycle over all threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_lab::kit::order::Order;
    ///
    /// assert_eq!(Order::Sequential.successors(3), [1, 2, 0]);
    /// ```
    pub fn successors(self, threads: usize) -> Vec<u32> {
        let count = u32::try_from(threads).expect("a ring has fewer than 2^32 threads");
        let mut successor: Vec<u32> = (0..count).collect();
        match self {
            Self::Shuffled => sattolo(&mut successor, &mut SplitMix64(SEED)),
            Self::Sequential => successor.rotate_left(1),
        }
        successor
    }
}

/// Turns the identity into a uniformly drawn permutation with a single cycle.
///
/// S. Sattolo, "An algorithm to generate a random cyclic permutation", 1986: like the shuffle of
/// Fisher and Yates, except that no element may stay.
fn sattolo(permutation: &mut [u32], random: &mut SplitMix64) {
    for last in (1..permutation.len()).rev() {
        permutation.swap(last, random.below(last as u64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cycle_length(successor: &[u32]) -> usize {
        let mut thread = successor[0];
        let mut length = 1;
        while thread != 0 && length <= successor.len() {
            thread = successor[thread as usize];
            length += 1;
        }
        length
    }

    proptest! {
        #[test]
        fn every_order_is_one_cycle_over_all(threads in 2usize..3000) {
            for order in [Order::Shuffled, Order::Sequential] {
                prop_assert_eq!(cycle_length(&order.successors(threads)), threads);
            }
        }
    }

    #[test]
    fn the_shuffle_is_fixed_and_shuffles() {
        let once = Order::Shuffled.successors(1000);
        assert_eq!(once, Order::Shuffled.successors(1000));
        let sequential = Order::Sequential.successors(1000);
        let same = once.iter().zip(&sequential).filter(|(a, b)| a == b).count();
        assert!(same < 20, "{same} of 1000 threads have their neighbour as successor");
    }
}
