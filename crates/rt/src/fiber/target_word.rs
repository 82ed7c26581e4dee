//! The word of a control block for the target of its wait.

use crate::atomic::{AtomicU64, Ordering};

/// The target of a fiber's wait.
///
/// ```text
/// bits 63 to 56: the kind, 0: unknown
/// bits 55 to 0: an address
/// ```
#[derive(Debug)]
pub(crate) struct TargetWord(AtomicU64);

impl TargetWord {
    pub(crate) const fn new() -> Self {
        TargetWord(AtomicU64::new(0))
    }

    /// Sets the target. Only the fiber itself, or the thread that has its node in hand, so that it
    /// cannot go on.
    #[inline(always)]
    pub(crate) fn set(&self, target: u64) {
        // Relaxed: a reader has seen that the fiber is suspended, and that it stays so.
        self.0.store(target, Ordering::Relaxed);
    }

    /// Sets the target to an unknown one. Callers as for [`set`](Self::set).
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.set(0);
    }

    /// Returns the target set last, of a fiber that is suspended.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
