//! Counters of the scheduler.

/// Names of the counters, in the order of `enum counter` in `src/bpf/state.h`. README.md
/// explains them.
pub const COUNTERS: [&str; 15] = [
    "wakes",
    "migrations",
    "swaps",
    "held",
    "followed",
    "bound",
    "balanced",
    "stolen",
    "lost",
    "core",
    "paired",
    "doubled",
    "skipped",
    "moved",
    "exchanged",
];

/// The counters since the scheduler was attached, summed over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; COUNTERS.len()]);

impl Counters {
    /// The sum over the CPUs, in the format of the kernel's map.
    pub fn sum<'a>(cpus: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut sum = Counters::default();
        for bytes in cpus {
            for (total, count) in sum.0.iter_mut().zip(bytes.as_chunks().0) {
                *total = total.wrapping_add(u64::from_ne_bytes(*count));
            }
        }
        sum
    }

    /// The counter of that name, one of [`COUNTERS`].
    ///
    /// # Panics
    ///
    /// If the name is unknown.
    pub fn get(&self, name: &str) -> u64 {
        self.0[COUNTERS.iter().position(|known| *known == name).expect("a counter's name")]
    }

    /// All counters, in the order of [`COUNTERS`].
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        COUNTERS.into_iter().zip(self.0)
    }

    /// The difference since `before`.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters(std::array::from_fn(|at| self.0[at].wrapping_sub(before.0[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_cpus_are_added() {
        let cpu = |first: u64| (first..first + 15).flat_map(u64::to_ne_bytes).collect::<Vec<_>>();
        let (one, other) = (cpu(1), cpu(16));
        let sum = Counters::sum([&one[..], &other[..]]);
        assert_eq!((sum.get("wakes"), sum.get("lost")), (17, 33));
        assert_eq!(sum.since(&Counters::sum([&one[..]])), Counters::sum([&other[..]]));
        assert_eq!(sum.each().nth(2), Some(("swaps", 21)));
    }

    #[test]
    fn a_value_that_is_too_short_counts_as_far_as_it_goes() {
        assert_eq!(Counters::sum([&[1, 0, 0][..]]), Counters::default());
    }

    /// Compares with the numbers of the C code, which fixes the order as well.
    #[test]
    fn the_order_is_that_of_the_scheduler() {
        let source = include_str!("bpf/state.h");
        let (_, list) = source.split_once("enum counter {").expect("the enumeration");
        let (list, _) = list.split_once('}').expect("its end");
        let names: Vec<_> = list.split(',').map(|name| name.trim().to_lowercase()).collect();
        let theirs: Vec<_> = COUNTERS
            .iter()
            .map(|name| name.replace("followed", "follows").replace("bound", "bounds"))
            .collect();
        assert_eq!(names[..COUNTERS.len()], theirs);
        assert_eq!(names[COUNTERS.len()], "counters");
    }
}
