//! Watches of several words by one fiber.

use std::fmt;

use daiko_core::watch::{Condition, Notice, Probe, WatchEntry, WatchedWord};

use super::Word;
use crate::caller;
use daiko_rt::call::Call;
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::fiber::unwind;
use daiko_rt::worker::Watcher;
use daiko_rt::{Deadline, TimedOut};

/// A word of any type and the condition on it, for [`first`].
#[derive(Clone, Copy)]
pub struct Watched<'w> {
    word: WatchedWord<'w>,
}

impl<'w> Watched<'w> {
    /// Creates a condition on `word`.
    pub fn new<W: Word>(word: &'w W, until: Condition<W::Value>) -> Self {
        Watched { word: WatchedWord::new::<W::Value>(word, until) }
    }
}

impl fmt::Debug for Watched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("holds", &self.word.holds()).finish_non_exhaustive()
    }
}

/// Suspends the calling fiber until one of the words meets its condition, and returns its index:
/// the lowest one, if several do.
///
/// The words are polled as by [`wait_until`](super::wait_until), all at each look: for more than
/// some tens of words, a [`NotificationArea`](super::NotificationArea) is faster. To wait for words
/// among other operations, see [`select!`](crate::select!).
///
/// ```
/// use daiko::watch::{self, Watched, at_least, changed_from, equal};
/// use std::ptr;
/// use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, Ordering};
///
/// static STOPPED: AtomicBool = AtomicBool::new(false);
/// static HEAD: AtomicPtr<u32> = AtomicPtr::new(ptr::null_mut());
/// static LEVEL: AtomicU16 = AtomicU16::new(0);
///
/// daiko::run(|| {
///     std::thread::spawn(|| LEVEL.store(9, Ordering::Release));
///     let first = watch::first(&[
///         Watched::new(&STOPPED, equal(true)),
///         Watched::new(&HEAD, changed_from(ptr::null_mut())),
///         Watched::new(&LEVEL, at_least(5)),
///     ]);
///     assert_eq!(first, 2);
/// });
/// ```
///
/// # Panics
///
/// If there are no words; as [`wait_until`](super::wait_until).
pub fn first(watched: &[Watched<'_>]) -> usize {
    first_for_ever(watched, Notice::Polled)
}

/// Waits as [`first`] does, but for at most `timeout`. A condition that holds already is found,
/// however short the timeout is.
///
/// # Errors
///
/// If the time is over. No word is read any more then.
///
/// # Panics
///
/// As [`first`].
pub fn first_timeout(
    watched: &[Watched<'_>],
    timeout: impl Into<Deadline>,
) -> Result<usize, TimedOut> {
    wait(watched, Notice::Polled, timeout.into()).ok_or(TimedOut)
}

/// The words of one wait.
struct Several<'w>(&'w [Watched<'w>]);

impl Several<'_> {
    fn first(&self) -> Option<usize> {
        self.0.iter().position(|watched| watched.word.holds())
    }
}

impl Probe for Several<'_> {
    fn sample(&self) -> Option<u64> {
        self.first().map(|index| index as u64)
    }
}

pub(super) fn first_for_ever(watched: &[Watched<'_>], notice: Notice) -> usize {
    match wait(watched, notice, Deadline::NEVER) {
        Some(index) => index,
        None => unreachable!("never has come"),
    }
}

/// Waits until a condition holds; returns `None` if the deadline passed before.
pub(super) fn wait(watched: &[Watched<'_>], notice: Notice, deadline: Deadline) -> Option<usize> {
    assert!(!watched.is_empty(), "daiko: watch::first waits for no word; name at least one");
    let call = Call::enter();
    let (worker, fiber) = caller::caller("watch::first");
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    let several = Several(watched);
    several.first().or_else(|| {
        let entry = WatchEntry::probing(&several, notice, Watcher::of(fiber));
        let target = WaitTarget::of(WaitKind::Watch);
        // SAFETY: the entry is new, and its probe is borrowed.
        let seen =
            unsafe { worker.watches.wait(call.token(), fiber, &entry, || None, target, deadline) };
        seen.map(|index| index as usize)
    })
}
