//! Which workers share a core, once somebody has said what his fibers do.

use std::sync::atomic::{AtomicBool, Ordering};

use daiko_sys::topology::Topology;

use crate::runtime::Shared;
use crate::worker::suspend;
pub use daiko_core::place::Class;

/// How workers come to know their siblings: not before a fiber has a class, as it takes files, and most programs have no use for
/// it.
///
/// Its words are hints, each of which stands for itself: so all accesses are relaxed.
pub(crate) struct Pairing {
    /// The CPU that each worker is bound to; none if there are to be no siblings.
    bound: Box<[usize]>,
    /// The core of each worker, if that is taken for granted.
    cores: Option<Box<[usize]>>,
    is_declared: AtomicBool,
    /// Whether the workers know. Only the monitor.
    is_known: AtomicBool,
}

impl Pairing {
    /// Of workers that are bound to one CPU of `bound` each, in turn, or are on these `cores`.
    pub(crate) fn new(bound: &[usize], cores: Option<Vec<usize>>, workers: usize) -> Self {
        Pairing {
            bound: bound.iter().copied().take(workers).collect(),
            cores: cores.map(|cores| cores.into_iter().take(workers).collect()),
            is_declared: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
        }
    }

    /// Some fiber of `runtime`, whose this is, has a class.
    #[inline]
    pub(crate) fn declare(&self, runtime: &Shared) {
        if !self.is_declared.load(Ordering::Relaxed) {
            self.declare_first(runtime);
        }
    }

    #[cold]
    fn declare_first(&self, runtime: &Shared) {
        if !self.is_declared.swap(true, Ordering::Relaxed)
            && let Some(cores) = &self.cores
        {
            introduce(runtime, cores);
        }
    }

    /// Looks at the machine, once it matters. By the monitor: a worker has fibers to run.
    pub(crate) fn look(&self, runtime: &Shared) {
        let is_due = self.is_declared.load(Ordering::Relaxed) && self.cores.is_none();
        if is_due && !self.is_known.swap(true, Ordering::Relaxed) {
            introduce(runtime, &cores_of(&self.bound).unwrap_or_default());
        }
    }
}

/// The core of each of these CPUs, if the kernel tells.
fn cores_of(cpus: &[usize]) -> Option<Vec<usize>> {
    let machine = Topology::read().ok()?;
    cpus.iter().map(|&cpu| Some(machine.cpu(cpu)?.core)).collect()
}

/// Has the workers of each core know each other, given the core of each.
fn introduce(runtime: &Shared, cores: &[usize]) {
    let mut workers: Vec<_> = (0..cores.len()).collect();
    workers.sort_by_key(|&worker| cores[worker]);
    for siblings in workers.chunk_by(|&a, &b| cores[a] == cores[b]).filter(|all| all.len() > 1) {
        let next = siblings.iter().cycle().skip(1);
        for (&worker, &next) in siblings.iter().zip(next) {
            runtime.workers()[worker].set_sibling(next);
        }
    }
}

/// Says what the calling fiber does from here on; returns what it has said before.
///
/// [`Builder::class`](crate::Builder::class) says so from the start. Where workers share no core, or are not
/// [bound](crate::RuntimeBuilder::bind), it makes no difference.
///
/// ```
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
pub fn set_class(class: Class) -> Class {
    let (worker, fiber) = suspend::caller("set_class");
    let before = fiber.class();
    fiber.set_class(class);
    if class != Class::Unknown {
        worker.runtime().pairing.declare(worker.runtime());
    }
    before
}
