//! The workers that share a core, as far as they are known.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// How workers come to know their siblings: not before a fiber has a class, as it takes files, and most programs have no use for
/// it.
///
/// Its words are hints, each of which stands for itself: so all accesses are relaxed.
pub(crate) struct Pairing {
    /// The CPU that each worker is bound to; none if there are to be no siblings.
    pub(super) bound: Box<[usize]>,
    /// Where each worker is, if that is taken for granted.
    pub(super) assumed: Option<Box<[Option<Place>]>>,
    pub(super) is_declared: AtomicBool,
    /// When the machine is looked at, on the monotonic clock; at its end never. Only the monitor.
    pub(super) next_look_ns: AtomicU64,
}

/// The core of a worker, and how many workers before it are bound to the same CPU: those of one CPU take turns, and so are no
/// siblings of each other.
pub(super) type Place = (usize, usize);

impl Pairing {
    /// Of so many workers that are bound to one CPU of `bound` each, in turn, or are on these `cores`.
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
