//! The CPUs on which the threads of a runtime may run.

use daiko_sys::cpu::CpuSet;

/// The CPUs of the threads of a runtime, which the builder chooses.
///
/// Threads and processes inherit the mask of the thread that starts them. So a mask is set only if
/// the builder asks for it, and then for workers alone.
#[derive(Clone, Debug)]
pub(crate) struct Affinity {
    /// The CPUs that the thread which built the runtime could use.
    allowed: CpuSet,
    /// The CPUs for the workers, in the order in which they take them.
    cpus: Box<[usize]>,
    /// True if each worker is bound to one of `cpus`.
    binds: bool,
}

impl Affinity {
    /// Lets workers run on `cpus`, which are among the `allowed` ones; each on one if `binds`.
    pub(super) fn new(allowed: CpuSet, cpus: Box<[usize]>, binds: bool) -> Self {
        Affinity { allowed, cpus, binds }
    }

    /// Returns the CPUs for the workers.
    pub(super) fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Returns the CPUs that workers are bound to, in turn; none if they are not.
    pub(super) fn bound(&self) -> &[usize] {
        if self.binds { &self.cpus } else { &[] }
    }

    /// Returns the mask that worker `index` has to set; `None` if it keeps the inherited one.
    pub(crate) fn of_worker(&self, index: usize) -> Option<CpuSet> {
        match self.binds {
            true => Some(CpuSet::from_iter([self.cpus[index % self.cpus.len()]])),
            false => self.of_spare(),
        }
    }

    /// Returns the mask that a spare worker has to set, which runs where there is room.
    pub(crate) fn of_spare(&self) -> Option<CpuSet> {
        let cpus = self.cpus.iter().copied().collect();
        (cpus != self.allowed).then_some(cpus)
    }

    /// Returns the mask that a thread for blocking calls has to set, if the inherited one, that of
    /// the worker, is narrower; else `None`.
    pub(crate) fn of_blocking_thread(&self) -> Option<&CpuSet> {
        let is_inherited = !self.binds && self.of_spare().is_none();
        (!is_inherited).then_some(&self.allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<const N: usize>(cpus: [usize; N]) -> CpuSet {
        CpuSet::from_iter(cpus)
    }

    #[test]
    fn no_mask_is_set_unless_it_is_asked_for() {
        let all = Affinity::new(set([0, 2, 3]), [0, 2, 3].into(), false);
        assert_eq!(
            (all.of_worker(1), all.of_spare(), all.of_blocking_thread()),
            (None, None, None)
        );
    }

    #[test]
    fn only_workers_are_confined() {
        let some = Affinity::new(set([0, 2, 3]), [3, 2].into(), false);
        assert_eq!(some.of_worker(0), Some(set([2, 3])));
        assert_eq!(some.of_spare(), Some(set([2, 3])));
        assert_eq!(some.of_blocking_thread(), Some(&set([0, 2, 3])));
    }

    #[test]
    fn bound_workers_take_the_cpus_in_turn() {
        let bound = Affinity::new(set([0, 2, 3]), [3, 2, 0].into(), true);
        let of_workers = [0, 1, 2, 3].map(|index| bound.of_worker(index).unwrap());
        assert_eq!(of_workers, [set([3]), set([2]), set([0]), set([3])]);
        assert_eq!(bound.of_spare(), None);
        assert_eq!(bound.of_blocking_thread(), Some(&set([0, 2, 3])));
    }
}
