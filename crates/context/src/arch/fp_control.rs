//! The uses of floating-point control words that are the same on all processors.

use super::FpControl;

impl FpControl {
    /// Gives the calling context the control words of a new process. Exceptions that were raised
    /// are forgotten if a control word differed.
    #[inline]
    pub fn reset() {
        if Self::current() != Self::INITIAL {
            Self::INITIAL.load();
        }
    }

    /// Runs `suspend` with the control words of a new process, which the calling kernel thread then
    /// has for other contexts. Afterwards the calling context has its own again, on any thread.
    #[inline]
    pub fn lay_aside<R>(suspend: impl FnOnce() -> R) -> R {
        let own = Self::current();
        if own == Self::INITIAL {
            return suspend();
        }
        Self::INITIAL.load();
        let result = suspend();
        own.load();
        result
    }
}
