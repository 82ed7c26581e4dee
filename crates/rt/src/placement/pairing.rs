//! Pairing: the workers that share a core, once a fiber has a class.

use daiko_sys::clock;
use daiko_sys::cpu::CpuSet;
use daiko_sys::topology::{TopologyError, read_cores};

use super::siblings::{CorePlace, Pairing};
use crate::atomic::Ordering;
use crate::runtime::RuntimeInner;
use crate::worker;
pub use daiko_core::place::Class;

/// Time between a failed read and the next.
const LOOK_NS: u64 = 1_000_000_000;

impl Pairing {
    /// Records that a fiber of `runtime`, which owns this state, has a class.
    #[inline]
    pub(crate) fn declare(&self, runtime: &RuntimeInner) {
        if !self.is_declared.load(Ordering::Relaxed) {
            self.declare_first(runtime);
        }
    }

    #[cold]
    fn declare_first(&self, runtime: &RuntimeInner) {
        if !self.is_declared.swap(true, Ordering::Relaxed)
            && let Some(places) = &self.assumed
        {
            introduce(runtime, places);
        }
    }

    /// Reads the machine, once it matters. On the monitor, because a worker has fibers to run.
    pub(crate) fn look(&self, runtime: &RuntimeInner) {
        let is_learnt = self.next_look_ns.load(Ordering::Relaxed) == u64::MAX;
        if !is_learnt && self.is_declared.load(Ordering::Relaxed) {
            self.look_at(clock::monotonic_ns(), runtime, read_cores);
        }
    }

    /// Reads the machine at `now_ns`. A read that fails now may succeed later, as with too many
    /// open files; `daiko doctor` says why it fails.
    fn look_at(
        &self,
        now_ns: u64,
        runtime: &RuntimeInner,
        read_cores: impl FnOnce() -> Result<Vec<CpuSet>, TopologyError>,
    ) {
        if now_ns < self.next_look_ns.load(Ordering::Relaxed) {
            return;
        }
        let next = match read_cores() {
            Ok(cores) => {
                introduce(runtime, &places(&self.bound, &cores));
                u64::MAX
            }
            Err(_) => now_ns + LOOK_NS,
        };
        self.next_look_ns.store(next, Ordering::Relaxed);
    }
}

/// Returns the places of workers that are bound to these CPUs. A worker of an offline CPU has none:
/// the kernel has moved it, and does not bring it back.
fn places(bound: &[usize], cores: &[CpuSet]) -> Vec<Option<CorePlace>> {
    let place = |(index, cpu): (usize, &usize)| {
        let core = cores.iter().position(|core| core.contains(*cpu))?;
        Some((core, bound[..index].iter().filter(|before| *before == cpu).count()))
    };
    bound.iter().enumerate().map(place).collect()
}

/// Makes the workers of each place siblings of each other.
fn introduce(runtime: &RuntimeInner, places: &[Option<CorePlace>]) {
    let mut workers: Vec<_> =
        (0..places.len()).filter(|worker| places[*worker].is_some()).collect();
    workers.sort_by_key(|&worker| places[worker]);
    let circles = workers.chunk_by(|&a, &b| places[a] == places[b]).filter(|all| all.len() > 1);
    for siblings in circles {
        let next = siblings.iter().cycle().skip(1);
        for (&worker, &next) in siblings.iter().zip(next) {
            runtime.workers()[worker].set_sibling(next);
        }
    }
}

/// Sets the class of the calling fiber from here on; returns its class before.
///
/// [`Builder::class`](crate::Builder::class) sets it from the start. It makes a difference only if
/// workers are [paired](crate::RuntimeBuilder::pairing), and share a core.
///
/// ```
/// # use daiko_rt as daiko;
/// use daiko::Class;
///
/// # daiko::run(|| {
/// let before = daiko::set_class(Class::Stall);
/// // Here it writes to persistent memory.
/// assert_eq!(daiko::set_class(before), Class::Stall);
/// # });
/// ```
///
/// # Panics
///
/// If the caller is not a fiber.
#[track_caller]
pub fn set_class(class: Class) -> Class {
    let (worker, fiber) = worker::caller("set_class");
    let before = fiber.class.get();
    fiber.class.set(class);
    if class != Class::Unknown {
        worker.runtime().pairing.declare(worker.runtime());
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Preset, Runtime, RuntimeBuilder};
    use daiko_sys::topology::described::Described;

    fn cores(machine: &str) -> Vec<CpuSet> {
        let machine = Described::parse(machine).unwrap().topology().unwrap();
        (0..machine.cores()).map(|core| machine.core(core)).collect()
    }

    /// Creates a runtime that learns nothing by itself.
    fn unbound(workers: usize) -> Runtime {
        Runtime::builder().workers(workers).bind(false).preset(Preset::Power).build().unwrap()
    }

    fn siblings(runtime: &Runtime) -> Vec<Vec<u32>> {
        let workers = runtime.shared().workers().iter();
        workers.map(|worker| worker.siblings().map(|sibling| sibling.index).collect()).collect()
    }

    #[test]
    fn workers_on_different_cpus_of_a_core_are_siblings() {
        let none = || [vec![], vec![]];
        for (machine, bound, expected) in [
            ("1x2x2", vec![0, 1, 2, 3], vec![vec![2], vec![3], vec![0], vec![1]]),
            ("1x2x2 offline=3", vec![0, 1, 2, 3], vec![vec![2], vec![], vec![0], vec![]]),
            ("1x2x2", vec![0, 1], none().to_vec()),
            ("1x1x2", vec![0, 0], none().to_vec()),
            ("1x1x2", vec![0, 1, 0, 1], vec![vec![1], vec![0], vec![3], vec![2]]),
            ("1x1x2", vec![0, 1, 1], vec![vec![1], vec![0], vec![]]),
            ("1x1x3", vec![2, 1, 0], vec![vec![1, 2], vec![2, 0], vec![0, 1]]),
        ] {
            let runtime = unbound(bound.len());
            introduce(runtime.shared(), &places(&bound, &cores(machine)));
            assert_eq!(siblings(&runtime), expected, "{bound:?} of {machine}");
        }
    }

    #[test]
    fn workers_are_bound_in_turn_however_many_they_are() {
        assert_eq!(*Pairing::new(&[4, 6], None, 5).bound, [4, 6, 4, 6, 4]);
        assert_eq!(*Pairing::new(&[4, 6], None, 1).bound, [4]);
    }

    #[test]
    fn a_worker_without_siblings_does_not_look() {
        let has_to_look = |builder: RuntimeBuilder| {
            let runtime = builder.build().unwrap();
            runtime.shared().pairing.next_look_ns.load(Ordering::Relaxed) == 0
        };
        let two = || Runtime::builder().workers(2);
        assert!(has_to_look(two().bind(true)));
        assert!(has_to_look(two().pairing(true)));
        let bound = || two().bind(true);
        for not in [two(), bound().pairing(false), bound().cores([0, 0]), bound().workers(1)] {
            assert!(!has_to_look(not));
        }
    }

    #[test]
    fn a_look_that_fails_is_repeated_after_a_second() {
        let (runtime, pairing) = (unbound(2), Pairing::new(&[0, 1], None, 2));
        type Read = fn() -> Result<Vec<CpuSet>, TopologyError>;
        let look_at = |now, read: Read| pairing.look_at(now, runtime.shared(), read);
        look_at(5, || Err(TopologyError::Changing));
        let too_early = || unreachable!("it was just looked");
        look_at(4 + LOOK_NS, too_early);
        assert_eq!(siblings(&runtime), [[], []]);
        look_at(5 + LOOK_NS, || Ok(cores("1x1x2")));
        assert_eq!(siblings(&runtime), [[1], [0]]);
        look_at(u64::MAX - 1, too_early);
    }
}
