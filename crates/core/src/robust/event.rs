//! An event that is set and reset, for processes that may be killed.

use super::SeenWord;
use crate::atomic::{AtomicU64, Ordering, const_fn, unless_weakened};

/// An event, of 8 bytes.
///
/// It is set until it is reset. A waiter that looked before a set sees it even if it is reset
/// before the waiter looks again.
///
/// Budget: one RMW to set it, a load and one RMW to reset it, one load to look. One line.
///
/// ```
/// use daiko_core::robust::RobustEvent;
///
/// let event = RobustEvent::new();
/// let seen = event.look();
/// assert!(!event.has_come(seen));
/// event.set();
/// assert!(event.is_set() && event.reset() && !event.reset());
/// assert!(!event.is_set() && event.has_come(seen));
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RobustEvent(AtomicU64);

/// The word. A zeroed word is unset.
///
/// ```text
/// 63      1    0
/// | resets | SET |
/// ```
///
/// Every change makes it greater by one, so that no value comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RobustEventWord(u64);

impl RobustEventWord {
    const SET: u64 = 1;

    const fn is_set(self) -> bool {
        self.0 & Self::SET != 0
    }

    /// Returns the word after a reset of this set word.
    const fn reset(self) -> RobustEventWord {
        if cfg!(weaken = "robust-event-reset") {
            return RobustEventWord(self.0 & !Self::SET);
        }
        RobustEventWord(self.0.wrapping_add(1))
    }
}

impl RobustEvent {
    const_fn! {
        /// Creates an unset event.
        pub const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    fn load(&self) -> RobustEventWord {
        // Acquire: pairs with the Release in `set`.
        RobustEventWord(self.0.load(Ordering::Acquire))
    }

    /// Sets the event. The caller rings for the waiters even if it was set before: the earlier
    /// setter may have died before it rang.
    #[inline]
    pub fn set(&self) {
        // Release: pairs with the Acquire in `load` and `reset`. Written even if it is set, so that
        // a waiter sees the writes before the last set.
        self.0.fetch_or(
            RobustEventWord::SET,
            unless_weakened!("robust-event-set", Ordering::Release),
        );
    }

    /// Resets the event. Of all callers that do so for one set, one gets true: so an event releases
    /// one waiter at a time.
    #[inline]
    pub fn reset(&self) -> bool {
        let seen = self.load();
        // Acquire: as in `load`. If it fails, another caller was faster.
        let reset = || {
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            self.0.compare_exchange(seen.0, seen.reset().0, acquire, relaxed)
        };
        seen.is_set() && reset().is_ok()
    }

    /// Returns true if it is set.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.load().is_set()
    }

    /// Returns the point from which [`has_come`](Self::has_come) sees each set.
    /// [`is_set`](Self::is_set) tells of earlier sets.
    pub fn look(&self) -> SeenWord {
        SeenWord(self.load().0)
    }

    /// Returns true if it is set, or has been since it was `seen`.
    #[inline]
    pub fn has_come(&self, seen: SeenWord) -> bool {
        let word = self.load();
        word.is_set() || word.0 != seen.0
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<RobustEvent>() == 8);

impl Default for RobustEvent {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl RobustEvent {
    /// Stores any word, as a peer may.
    pub(super) fn spoil(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
