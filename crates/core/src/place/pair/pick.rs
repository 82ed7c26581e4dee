//! The next fiber of a worker beside running siblings, and the time when its agent leaves them the
//! core.

use super::Class;

/// Number of queued fibers that are looked at.
pub const LOOKS: usize = 4;

/// Largest number of times that a queued fiber is passed over.
pub const PASSES: u8 = 4;

/// Time that an agent looks for work beside a sibling that computes, in nanoseconds: a few wakes
/// across workers.
pub const POLITE_NS: u64 = 4_000;

/// Returns the best class beside the fibers that the siblings run; `None` if neither class
/// outnumbers the other.
///
/// # Examples
///
/// ```
/// use daiko_core::place::{Class, wanted};
///
/// assert_eq!(wanted([Class::Compute]), Some(Class::Stall));
/// assert_eq!(wanted([Class::Stall, Class::Stall, Class::Compute]), Some(Class::Compute));
/// assert_eq!(wanted([Class::Unknown]), None);
/// ```
#[inline]
pub fn wanted(running: impl IntoIterator<Item = Class>) -> Option<Class> {
    let computing = running.into_iter().fold(0, |sum, class| match class {
        Class::Compute => sum + 1,
        Class::Stall => sum - 1,
        Class::Unknown => sum,
    });
    match computing {
        0 => None,
        1.. => Some(Class::Stall),
        _ => Some(Class::Compute),
    }
}

/// Chooses one of the `first` fibers of a queue to run next: the oldest of the `wanted` class, if
/// it is among the first [`LOOKS`] and none before it was passed over [`PASSES`] times; else the
/// oldest of all.
///
/// Each comes with the number of times it was passed over. The worker that runs the chosen one
/// counts once more for those before it.
///
/// # Examples
///
/// ```
/// use daiko_core::place::{Class, PASSES, pick};
///
/// assert_eq!(pick(Class::Stall, [(Class::Compute, 0), (Class::Stall, 0)]), 1);
/// assert_eq!(pick(Class::Stall, [(Class::Compute, PASSES), (Class::Stall, 0)]), 0);
/// assert_eq!(pick(Class::Stall, [(Class::Compute, 0), (Class::Unknown, 0)]), 0);
/// ```
#[inline]
pub fn pick(wanted: Class, first: impl IntoIterator<Item = (Class, u8)>) -> usize {
    let mut first = first.into_iter().take(LOOKS).enumerate();
    match first.find(|(_, fiber)| ends_look(wanted, *fiber)) {
        Some((index, (class, _))) if class == wanted => index,
        _ => 0,
    }
}

/// Returns true if no fiber behind this one is looked at: it is of the `wanted` class, or was
/// passed over [`PASSES`] times.
#[inline]
pub fn ends_look(wanted: Class, (class, passed): (Class, u8)) -> bool {
    class == wanted || passed >= PASSES
}

/// Returns true if an agent that has found nothing for `idle_ns` leaves the core to its siblings.
///
/// # Examples
///
/// ```
/// use daiko_core::place::{Class, POLITE_NS, gives_way};
///
/// assert!(gives_way([Class::Compute], POLITE_NS));
/// assert!(!gives_way([Class::Compute], POLITE_NS - 1));
/// assert!(!gives_way([Class::Stall], POLITE_NS));
/// ```
#[inline]
pub fn gives_way(running: impl IntoIterator<Item = Class>, idle_ns: u64) -> bool {
    idle_ns >= POLITE_NS && running.into_iter().any(|class| class == Class::Compute)
}
