//! The begin of a wait at a notification area, against its end and against an agent that parks.

use std::ptr::NonNull;

use super::area::Area;
use super::condition::WatchValue;
use crate::atomic::{AtomicBool, Ordering, const_fn, fence, unless_weakened};

/// The end of a notification area: once it is closed, no wait at it lasts any more.
///
/// ```text
/// false -> true    once, by the thread that closes the area
/// ```
#[derive(Debug)]
pub struct Closing(AtomicBool);

/// The begin of a wait.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The waiter may suspend: it is woken exactly once.
    Waits,
    /// A notification is there already. The waiter [takes itself out](Area::take_waiter); if
    /// another thread has done so, a wake is under way.
    Notified,
    /// The area is closed, and all notifications that came before are visible. As for `Notified`.
    Closed,
}

impl Closing {
    const_fn! {
        /// The state of an open area.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Closing(AtomicBool::new(false))
        }
    }
}

impl<V: WatchValue, T> Area<'_, V, T> {
    /// Lets `waiter` wait until word `i` has a bit of `mask`, or the area is closed. Only where
    /// nothing waits for the word.
    ///
    /// Without an area that closes, and with an agent that samples, [`arm`](Self::arm) suffices.
    pub fn begin_wait(&self, closing: &Closing, i: usize, mask: V, waiter: NonNull<T>) -> Begun {
        self.arm(i, mask, waiter);
        if !cfg!(weaken = "area-begin") {
            // Pairs with the fence in `close`: either that sees the waiter, or this the end. And
            // with the fence of an `Announcement`: either the announcing thread comes later, and an
            // agent that looks behind it sees the waiter, or the look below sees the notification.
            fence(Ordering::SeqCst);
        }
        // Acquire: pairs with the Release in `close`.
        if closing.0.load(Ordering::Acquire) {
            return Begun::Closed;
        }
        // Relaxed: a hint; `take` acquires.
        let word = V::load(&self.words()[i], Ordering::Relaxed);
        match word.has_bit_of(mask) && !cfg!(weaken = "area-look") {
            true => Begun::Notified,
            false => Begun::Waits,
        }
    }

    /// Ends all waits, and those that are to begin; `wake` is given each waiter, which it wakes
    /// exactly once.
    pub fn close(&self, closing: &Closing, wake: impl FnMut(NonNull<T>)) {
        // Release: pairs with the Acquire in `begin_wait`, for the notifications that came before.
        closing.0.store(true, unless_weakened!("area-closed", Ordering::Release));
        if !cfg!(weaken = "area-close") {
            // Pairs with the fence in `begin_wait`.
            fence(Ordering::SeqCst);
        }
        let waited = (0..self.len()).filter(|&i| self.has_waiter(i));
        waited.filter_map(|i| self.take_waiter(i)).for_each(wake);
    }
}
