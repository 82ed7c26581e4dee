//! The mark of a scope that has ended.

use crate::atomic::{AtomicBool, Ordering, const_fn};

/// The mark of one scope. It tells the fiber that the scope has ended: the fiber looks before each
/// suspension, and after an interrupt. It lies in the frame of the scope.
///
/// ```
/// use daiko_core::cancel::ScopeMark;
///
/// let mark = ScopeMark::new();
/// assert!(!mark.is_over());
/// mark.end(|| assert!(mark.is_over(), "the fiber that is interrupted sees it"));
/// ```
#[derive(Debug)]
pub struct ScopeMark(AtomicBool);

impl ScopeMark {
    const_fn! {
        /// Creates the mark of a scope that has not ended.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            ScopeMark(AtomicBool::new(false))
        }
    }

    /// Ends the scope, for good, and then calls `interrupt`, which interrupts its fiber.
    #[inline]
    pub fn end(&self, interrupt: impl FnOnce()) {
        if cfg!(weaken = "cancel-mark") {
            interrupt();
            return self.0.store(true, Ordering::Relaxed);
        }
        // Relaxed: the interrupt publishes it, by its RMW on the run state or on the message word.
        self.0.store(true, Ordering::Relaxed);
        interrupt();
    }

    /// Returns true if the scope has ended.
    #[inline]
    pub fn is_over(&self) -> bool {
        // Relaxed: a fiber that finds or removes the interrupt sees it at the latest.
        self.0.load(Ordering::Relaxed)
    }
}
