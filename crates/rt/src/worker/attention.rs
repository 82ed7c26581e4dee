//! The requests that a worker's next pick looks at, by one load.

use crate::atomic::{AtomicU8, Ordering};

/// The monitor's request to poll the sources.
const TICK: u8 = 1;
/// The worker's own mark that its events are recorded.
const TRACED: u8 = 2;

/// The word of these requests.
pub(crate) struct Attention(AtomicU8);

impl Attention {
    pub(super) const fn new() -> Self {
        Attention(AtomicU8::new(0))
    }

    /// Returns true if there is any request. Late looks are as good, here and below: all is
    /// relaxed.
    #[inline(always)]
    pub(super) fn is_needed(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Asks the worker to poll the sources at its next pick.
    pub(crate) fn raise_tick(&self) {
        self.0.fetch_or(TICK, Ordering::Relaxed);
    }

    /// Returns true if the next pick is to poll the sources.
    pub(super) fn has_tick(&self) -> bool {
        self.0.load(Ordering::Relaxed) & TICK != 0
    }

    pub(super) fn clear_tick(&self) {
        self.0.fetch_and(!TICK, Ordering::Relaxed);
    }

    /// Returns true if the events of the worker are recorded.
    #[inline(always)]
    pub(super) fn is_traced(&self) -> bool {
        self.0.load(Ordering::Relaxed) & TRACED != 0
    }

    /// Notes whether the events of the worker are recorded.
    pub(super) fn set_traced(&self, is_traced: bool) {
        if is_traced {
            self.0.fetch_or(TRACED, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!TRACED, Ordering::Relaxed);
        }
    }
}
