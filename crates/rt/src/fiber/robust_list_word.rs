//! The word of a control block for its robust list.

use std::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, Ordering};
use crate::process::RobustList;

/// The address of the fiber's robust list, which the block keeps for later fibers; null: none yet.
///
/// Where workers are processes: only the fiber, and the successor of its worker.
#[derive(Debug)]
pub(crate) struct RobustListWord(AtomicPtr<RobustList>);

impl RobustListWord {
    pub(crate) const fn new() -> Self {
        RobustListWord(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the list, if there is one.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<NonNull<RobustList>> {
        // Relaxed: the worker that has the fiber now comes after the worker that had it before.
        NonNull::new(self.0.load(Ordering::Relaxed))
    }

    /// Sets the list, of a block that has none.
    pub(crate) fn set(&self, list: Box<RobustList>) -> NonNull<RobustList> {
        let list = NonNull::from(Box::leak(list));
        self.0.store(list.as_ptr(), Ordering::Relaxed);
        list
    }

    /// Takes the list out of a block that no fiber uses.
    pub(crate) fn take(&self) -> Option<Box<RobustList>> {
        let list = NonNull::new(self.0.swap(ptr::null_mut(), Ordering::Relaxed))?;
        // SAFETY: `set` has leaked it, and no other reference to it exists.
        Some(unsafe { Box::from_raw(list.as_ptr()) })
    }
}
