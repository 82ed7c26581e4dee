//! Polled watches with properties.

use std::sync::Arc;

use daiko_core::watch::{Condition, Notice};

use super::area::Lane;
use super::first::{first_for_ever, wait as wait_for_first};
use super::single::{wait, wait_for_ever};
use super::{NotificationArea, Slot, Watched, Word};
use daiko_rt::{Deadline, TimedOut};

/// The properties of a polled watch.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use daiko::watch::{WatchBuilder, equal};
///
/// // In memory that another process maps as well, or a device writes.
/// static DOORBELL: AtomicU32 = AtomicU32::new(0);
///
/// daiko::run(|| {
///     std::thread::spawn(|| DOORBELL.store(1, Ordering::Release));
///     WatchBuilder::new().peer_elsewhere().wait_until(&DOORBELL, equal(1));
/// });
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until it waits"]
pub struct WatchBuilder {
    notice: Notice,
}

impl WatchBuilder {
    /// Creates the properties of a watch as [`wait_until`](super::wait_until) makes it.
    pub const fn new() -> Self {
        WatchBuilder { notice: Notice::Polled }
    }

    /// States that the writer of the word has a CPU of its own: another process on another CPU, a
    /// device.
    ///
    /// Then an agent spins as long as its [`Preset`](crate::Preset) says even if the process may
    /// use one CPU only. Without this statement the agent takes the writer for a thread that needs
    /// this CPU, and sleeps between two looks at the word. A false statement costs time slices: the
    /// writer gets the CPU when the kernel takes it from the agent.
    pub const fn peer_elsewhere(self) -> Self {
        WatchBuilder { notice: Notice::Elsewhere }
    }

    /// Suspends the calling fiber until `word` meets the condition, and returns the value that did,
    /// as [`wait_until`](super::wait_until) does.
    ///
    /// # Panics
    ///
    /// If the caller is not a fiber, or is inside [`no_suspend`](crate::no_suspend).
    pub fn wait_until<W: Word>(self, word: &W, until: Condition<W::Value>) -> W::Value {
        wait_for_ever(word, until, self.notice)
    }

    /// Waits as [`wait_until`](Self::wait_until) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over. `word` is not read any more then.
    ///
    /// # Panics
    ///
    /// As [`wait_until`](Self::wait_until).
    pub fn wait_until_timeout<W: Word>(
        self,
        word: &W,
        until: Condition<W::Value>,
        timeout: impl Into<Deadline>,
    ) -> Result<W::Value, TimedOut> {
        wait(word, until, self.notice, timeout.into()).ok_or(TimedOut)
    }
}

impl WatchBuilder {
    /// Suspends the calling fiber until one of the words meets its condition, and returns its
    /// index, as [`first`](super::first()) does.
    ///
    /// # Panics
    ///
    /// As [`first`](super::first()).
    pub fn first(self, watched: &[Watched<'_>]) -> usize {
        first_for_ever(watched, self.notice)
    }

    /// Waits as [`first`](Self::first) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over. No word is read any more then.
    ///
    /// # Panics
    ///
    /// As [`first`](super::first()).
    pub fn first_timeout(
        self,
        watched: &[Watched<'_>],
        timeout: impl Into<Deadline>,
    ) -> Result<usize, TimedOut> {
        wait_for_first(watched, self.notice, timeout.into()).ok_or(TimedOut)
    }

    /// Creates a notification area over words that exist already, as
    /// [`NotificationArea::over`](super::NotificationArea::over) does.
    pub fn area_over<V, O>(self, words: Arc<O>) -> (NotificationArea<V>, Vec<Slot<V>>)
    where
        V: Lane,
        V::Atomic: Word<Value = V> + Send + Sync + Default,
        O: AsRef<[V::Atomic]> + Send + Sync + 'static,
    {
        NotificationArea::over_with(words, self.notice)
    }
}

impl Default for WatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}
