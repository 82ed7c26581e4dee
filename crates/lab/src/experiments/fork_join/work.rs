//! The work, as functions of the way to fork.

use std::sync::OnceLock;

use crate::kit::{Choice, Failure, SplitMix64};

/// A work, with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Fib24,
    Fib30,
    Tree,
    Sort,
    /// A tree and a sort for tests of an unoptimised build.
    #[cfg(test)]
    SmallFib,
    #[cfg(test)]
    SmallTree,
    #[cfg(test)]
    SmallSort,
}

#[cfg(test)]
pub(super) const SMALL: [Work; 3] = [Work::SmallFib, Work::SmallTree, Work::SmallSort];

impl Choice for Work {
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Fib24, "fib-24"),
        (Self::Fib30, "fib-30"),
        (Self::Tree, "tree"),
        (Self::Sort, "sort"),
    ];
}

/// The task of a method.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// The Fibonacci number of the first, with forks down to the second.
    Fib(u64, u64),
    /// The sum of the values of a tree.
    Tree(&'static [u64]),
    /// A checksum of the sorted numbers.
    Sort(&'static [u64]),
}

/// Number of nodes of a tree, and of numbers to sort.
const NODES: usize = 300_000;
const NUMBERS: usize = 4_000_000;
/// Largest number of numbers that are sorted without a fork.
pub(super) const LEAF: usize = 4096;

impl Work {
    pub(super) fn task(self) -> Task {
        match self {
            Self::Fib24 => Task::Fib(24, 0),
            Self::Fib30 => Task::Fib(30, 12),
            Self::Tree => Task::Tree(numbers(NODES)),
            Self::Sort => Task::Sort(numbers(NUMBERS)),
            #[cfg(test)]
            Self::SmallFib => Task::Fib(10, 3),
            #[cfg(test)]
            Self::SmallTree => Task::Tree(&numbers(NODES)[..1000]),
            #[cfg(test)]
            Self::SmallSort => Task::Sort(&numbers(NODES)[..3 * LEAF]),
        }
    }

    /// Makes the input.
    pub(super) fn prepare(self) {
        self.task();
    }

    /// Counts the forks.
    pub(super) fn forks(self) -> usize {
        match self.task() {
            Task::Fib(number, leaf) => fib_forks(number, leaf),
            Task::Tree(values) => values.len() / 2,
            Task::Sort(numbers) => sort_forks(numbers.len()),
        }
    }

    /// Checks a result.
    pub(super) fn check(self, result: u64) -> Result<(), Failure> {
        let expected = match self.task() {
            Task::Fib(number, _) => plain_fib(number),
            Task::Tree(values) | Task::Sort(values) => sum(values),
        };
        match result == expected {
            true => Ok(()),
            false => Err(Failure::Broken(format!("{result} is the result, not {expected}"))),
        }
    }
}

/// The first `count` of a sequence of random numbers.
fn numbers(count: usize) -> &'static [u64] {
    static NODES_MADE: OnceLock<Vec<u64>> = OnceLock::new();
    static NUMBERS_MADE: OnceLock<Vec<u64>> = OnceLock::new();
    let made = if count == NODES { &NODES_MADE } else { &NUMBERS_MADE };
    made.get_or_init(|| {
        let mut random = SplitMix64(1);
        (0..count).map(|_| random.next()).collect()
    })
}

fn sum(values: &[u64]) -> u64 {
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value))
}

/// The Fibonacci number by the plain recursion, which all methods have below their cut-off.
pub(super) fn plain_fib(number: u64) -> u64 {
    if number < 2 { number } else { plain_fib(number - 1) + plain_fib(number - 2) }
}

fn fib_forks(number: u64, leaf: u64) -> usize {
    if number < leaf.max(2) {
        return 0;
    }
    1 + fib_forks(number - 1, leaf) + fib_forks(number - 2, leaf)
}

fn sort_forks(numbers: usize) -> usize {
    if numbers <= LEAF {
        return 0;
    }
    1 + sort_forks(numbers / 2) + sort_forks(numbers - numbers / 2)
}

/// A way to run two functions, perhaps at the same time.
pub(super) trait Forks {
    /// Runs both and returns both results.
    fn join<A: Send + 'static, B: Send + 'static>(
        one: impl FnOnce() -> A + Send + 'static,
        other: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B);
}

/// Does the work once.
pub(super) fn run<F: Forks>(task: Task) -> u64 {
    match task {
        Task::Fib(number, leaf) => fib::<F>(number, leaf),
        Task::Tree(values) => tree::<F>(values, 0),
        Task::Sort(numbers) => checksum(&sort::<F>(numbers.to_vec())),
    }
}

fn fib<F: Forks>(number: u64, leaf: u64) -> u64 {
    if number < leaf.max(2) {
        return plain_fib(number);
    }
    let (one, other) =
        F::join(move || fib::<F>(number - 1, leaf), move || fib::<F>(number - 2, leaf));
    one + other
}

/// The children of node `n` are `2n + 1` and `2n + 2`.
fn tree<F: Forks>(values: &'static [u64], node: usize) -> u64 {
    let Some(value) = values.get(node) else { return 0 };
    if 2 * node + 1 >= values.len() {
        return *value;
    }
    let (one, other) =
        F::join(move || tree::<F>(values, 2 * node + 1), move || tree::<F>(values, 2 * node + 2));
    value.wrapping_add(one).wrapping_add(other)
}

fn sort<F: Forks>(mut low: Vec<u64>) -> Vec<u64> {
    if low.len() <= LEAF {
        low.sort_unstable();
        return low;
    }
    let high = low.split_off(low.len() / 2);
    let (low, high) = F::join(move || sort::<F>(low), move || sort::<F>(high));
    merge(&low, &high)
}

/// Merges two sorted lists.
pub(super) fn merge(mut one: &[u64], mut other: &[u64]) -> Vec<u64> {
    let mut merged = Vec::with_capacity(one.len() + other.len());
    while let ([first, one_left @ ..], [second, other_left @ ..]) = (one, other) {
        if first <= second {
            merged.push(*first);
            one = one_left;
        } else {
            merged.push(*second);
            other = other_left;
        }
    }
    merged.extend_from_slice(one);
    merged.extend_from_slice(other);
    merged
}

/// The sum of sorted numbers, which is wrong if they are not sorted.
pub(super) fn checksum(sorted: &[u64]) -> u64 {
    if sorted.is_sorted() { sum(sorted) } else { !sum(sorted) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static FORKS: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts the forks, and runs the branches in turn.
    struct Counted;

    impl Forks for Counted {
        fn join<A: Send + 'static, B: Send + 'static>(
            one: impl FnOnce() -> A + Send + 'static,
            other: impl FnOnce() -> B + Send + 'static,
        ) -> (A, B) {
            FORKS.set(FORKS.get() + 1);
            (one(), other())
        }
    }

    #[test]
    fn the_forks_of_a_work_are_those_that_it_does() {
        for work in SMALL.into_iter().chain([Work::Fib24, Work::Fib30]) {
            FORKS.set(0);
            run::<Counted>(work.task());
            assert_eq!(work.forks(), FORKS.get(), "{work:?}");
        }
    }
}
