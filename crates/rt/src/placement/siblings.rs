//! The workers that share a core, as far as they are known.

use crate::atomic::{AtomicBool, AtomicU64};

/// The state by which workers learn their siblings. Not before a fiber has a class, because that
/// reads files and most programs have no use for it.
///
/// Its words are hints, each independent of the other words, so all accesses are relaxed.
pub(crate) struct Pairing {
    /// The CPU that each worker is bound to; empty if there are to be no siblings.
    pub(super) bound: Box<[usize]>,
    /// The place of each worker, if that is given.
    pub(super) assumed: Option<Box<[Option<CorePlace>]>>,
    pub(super) is_declared: AtomicBool,
    /// The time at which the machine is read, on the monotonic clock; the maximum means never. Only
    /// the monitor.
    pub(super) next_look_ns: AtomicU64,
}

/// The core of a worker, and the number of workers before it that are bound to the same CPU:
/// workers of one CPU take turns, and so are no siblings of each other.
pub(super) type CorePlace = (usize, usize);

impl Pairing {
    /// Creates the state of `workers` workers, each bound to one CPU of `bound`, in turn, or on
    /// these `cores`.
    pub(crate) fn new(bound: &[usize], cores: Option<Vec<usize>>, workers: usize) -> Self {
        let bound: Box<[usize]> = bound.iter().copied().cycle().take(workers).collect();
        let has_to_look = cores.is_none() && bound.len() > 1;
        Pairing {
            bound,
            assumed: cores
                .map(|cores| cores.into_iter().take(workers).map(|core| Some((core, 0))).collect()),
            is_declared: AtomicBool::new(false),
            next_look_ns: AtomicU64::new(if has_to_look { 0 } else { u64::MAX }),
        }
    }
}
