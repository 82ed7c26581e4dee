//! Whether something has happened.

use super::Seen;
use crate::sync::{AtomicU64, Ordering, const_fn, unless_weakened};

/// Whether something has happened, of 8 bytes.
///
/// It is set until it is reset. A set that is taken back before somebody has looked is seen by him nevertheless, if
/// he has looked before it came.
///
/// Budget: one RMW to set it, a load and one RMW to reset it, one load to look. One line.
///
/// ```
/// use daiko_core::robust::Event;
///
/// let event = Event::new();
/// let seen = event.look();
/// assert!(!event.has_come(seen));
/// event.set();
/// assert!(event.is_set() && event.reset() && !event.reset());
/// assert!(!event.is_set() && event.has_come(seen));
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Event(AtomicU64);

/// The word. Zeroed it is unset.
///
/// ```text
/// 63      1    0
/// | resets | SET |
/// ```
///
/// Whatever changes it makes it greater by one: it never is again what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word(u64);

impl Word {
    const SET: u64 = 1;

    const fn is_set(self) -> bool {
        self.0 & Self::SET != 0
    }

    /// After it was set.
    const fn reset(self) -> Word {
        if cfg!(weaken = "robust-event-reset") {
            return Word(self.0 & !Self::SET);
        }
        Word(self.0.wrapping_add(1))
    }
}

impl Event {
    const_fn! {
        /// Unset.
        pub const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    fn load(&self) -> Word {
        // Acquire: pairs with the Release in `set`.
        Word(self.0.load(Ordering::Acquire))
    }

    /// Sets it. The caller rings for those who wait, though it was set before: who had set it may have
    /// died before he rang.
    #[inline]
    pub fn set(&self) {
        // Release: pairs with the Acquire in `load` and `reset`. Written though it is set: who looks sees
        // what came before the last of those who have set it.
        self.0.fetch_or(Word::SET, unless_weakened!("robust-event-set", Ordering::Release));
    }

    /// Takes back that it was set. Of all who do so for one set, one is told true: so it lets one go at a time.
    #[inline]
    pub fn reset(&self) -> bool {
        let seen = self.load();
        // Acquire: as in `load`. If it fails, somebody else was faster.
        let reset = || {
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            self.0.compare_exchange(seen.0, seen.reset().0, acquire, relaxed)
        };
        seen.is_set() && reset().is_ok()
    }

    /// Whether it is set.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.load().is_set()
    }

    /// From when on [`has_come`](Self::has_come) is to see each set. Sets before are what
    /// [`is_set`](Self::is_set) tells of.
    pub fn look(&self) -> Seen {
        Seen(self.load().0)
    }

    /// Whether it is set, or has been since it was `seen`.
    #[inline]
    pub fn has_come(&self, seen: Seen) -> bool {
        let word = self.load();
        word.is_set() || word.0 != seen.0
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Event>() == 8);

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
impl Event {
    /// As a peer may leave it.
    pub(super) fn spoil(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}
