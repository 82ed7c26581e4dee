//! A word of the control block with two uses. A program has only one of them.

use std::ptr::{self, NonNull};

use crate::atomic::{AtomicU64, Ordering};
use crate::process::RobustList;

/// The target of a fiber's wait, while that is tracked. Where workers are processes no wait is
/// tracked, and the word is the address of the fiber's robust list.
///
/// ```text
/// bits 63 to 56: the kind of what it waits for, 0: unknown, or a robust list
/// bits 55 to 0: an address
/// ```
#[derive(Debug)]
pub(crate) struct UnionWord(AtomicU64);

/// Addresses of user space end below.
const ADDRESSES: u64 = 1 << 56;

impl UnionWord {
    pub(crate) const fn new() -> Self {
        UnionWord(AtomicU64::new(0))
    }

    /// Sets the target of the fiber's wait. Only the fiber itself, or the thread that has its node
    /// in hand.
    pub(crate) fn set_target(&self, word: u64) {
        // Relaxed: a reader has seen that the fiber is suspended, and that it stays so.
        self.0.store(word, Ordering::Relaxed);
    }

    /// Returns the target set last. For the monitor, of a fiber that is suspended.
    pub(crate) fn target(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the robust list, if there is one. Where workers are processes: only the fiber, and
    /// the successor of its worker.
    #[inline(always)]
    pub(crate) fn robust_list(&self) -> Option<NonNull<RobustList>> {
        // Relaxed: the worker that has the fiber now comes after the worker that had it before.
        NonNull::new(ptr::with_exposed_provenance_mut(self.0.load(Ordering::Relaxed) as usize))
    }

    /// Sets the robust list. Callers as for [`robust_list`](Self::robust_list), which returned
    /// `None`.
    pub(crate) fn set_robust_list(&self, list: Box<RobustList>) -> NonNull<RobustList> {
        let list = NonNull::from(Box::leak(list));
        self.0.store(list.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
        list
    }

    /// Takes the robust list out of a block that no fiber uses. Valid whether workers are threads
    /// or processes.
    pub(crate) fn take_robust_list(&self) -> Option<Box<RobustList>> {
        let list = (self.0.load(Ordering::Relaxed) < ADDRESSES).then(|| self.robust_list())??;
        self.0.store(0, Ordering::Relaxed);
        // SAFETY: `set_robust_list` has leaked it, and no other reference to it exists.
        Some(unsafe { Box::from_raw(list.as_ptr()) })
    }
}
