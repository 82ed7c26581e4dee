//! Whether a scope is over.

use crate::sync::{AtomicBool, Ordering, const_fn};

/// Says of one scope that it is over: for its fiber, which looks before each suspension, and where
/// it was interrupted in one. It lies in the frame that the scope is of.
///
/// ```
/// use daiko_core::cancel::Mark;
///
/// let mark = Mark::new();
/// assert!(!mark.is_over());
/// mark.end(|| assert!(mark.is_over(), "the fiber that is interrupted sees it"));
/// ```
#[derive(Debug)]
pub struct Mark(AtomicBool);

impl Mark {
    const_fn! {
        /// Of a scope that is not over.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Mark(AtomicBool::new(false))
        }
    }

    /// Ends the scope, for good, and then has `interrupt` tell its fiber.
    #[inline]
    pub fn end(&self, interrupt: impl FnOnce()) {
        if cfg!(weaken = "cancel-mark") {
            interrupt();
            return self.0.store(true, Ordering::Relaxed);
        }
        // Relaxed: the interrupt publishes it, by its RMW on the run state or on the mail.
        self.0.store(true, Ordering::Relaxed);
        interrupt();
    }

    /// Whether the scope is over.
    #[inline]
    pub fn is_over(&self) -> bool {
        // Relaxed: seen at the latest by who finds, or removes, the interrupt.
        self.0.load(Ordering::Relaxed)
    }
}
