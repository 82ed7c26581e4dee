//! The placement of a woken fiber.

/// The mobility of a started fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// The fiber stays on the worker that started it.
    Pinned,
    /// Any worker may resume it.
    Migratable,
}

/// The place where a woken fiber goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum WakeTarget {
    /// The LIFO slot of the worker that wakes it.
    LifoSlot,
    /// The inbox of this worker.
    Inbox(usize),
}

/// Returns where to put a fiber that last ran on worker `last`.
///
/// `waker` is the worker that wakes it, none for a thread that is no worker. `suspends` says that
/// the waking fiber is about to suspend (an agent's hit, send-and-wait, unlock-and-wait), so that a
/// migratable fiber takes over a worker which would otherwise look for work at once. Without that
/// promise even a migratable fiber goes home: bouncing costs ten times as much as staying.
///
/// # Examples
///
/// ```
/// use daiko_core::place::{Mobility, WakeTarget, wake};
///
/// assert_eq!(wake(Mobility::Pinned, 1, Some(1), false), WakeTarget::LifoSlot);
/// assert_eq!(wake(Mobility::Migratable, 1, Some(0), false), WakeTarget::Inbox(1));
/// assert_eq!(wake(Mobility::Migratable, 1, Some(0), true), WakeTarget::LifoSlot);
/// ```
pub fn wake(kind: Mobility, last: usize, waker: Option<usize>, suspends: bool) -> WakeTarget {
    match waker {
        Some(worker) if worker == last => WakeTarget::LifoSlot,
        Some(_) if suspends && kind == Mobility::Migratable => WakeTarget::LifoSlot,
        _ => WakeTarget::Inbox(last),
    }
}
