//! Waking a suspended fiber.

/// Whether a started fiber may change its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It stays on the worker that started it.
    Pinned,
    /// Any worker may resume it.
    Mover,
}

/// Where a woken fiber goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Target {
    /// The next slot of the worker that wakes it.
    NextSlot,
    /// The inbox of this worker.
    Inbox(usize),
}

/// Where to put a fiber that last ran on worker `last`.
///
/// `waker` is the worker that wakes it, none for a thread that is no worker; `suspends` says that
/// the fiber which wakes it is about to suspend (an agent's hit, send-and-wait, unlock-and-wait), so
/// that a mover takes over a worker which would look for work at once. Without that promise even a
/// mover goes home: bouncing costs ten times what staying costs.
///
/// # Examples
///
/// ```
/// use daiko_core::place::{Kind, Target, wake};
///
/// assert_eq!(wake(Kind::Pinned, 1, Some(1), false), Target::NextSlot);
/// assert_eq!(wake(Kind::Mover, 1, Some(0), false), Target::Inbox(1));
/// assert_eq!(wake(Kind::Mover, 1, Some(0), true), Target::NextSlot);
/// ```
pub fn wake(kind: Kind, last: usize, waker: Option<usize>, suspends: bool) -> Target {
    match waker {
        Some(worker) if worker == last => Target::NextSlot,
        Some(_) if suspends && kind == Kind::Mover => Target::NextSlot,
        _ => Target::Inbox(last),
    }
}
