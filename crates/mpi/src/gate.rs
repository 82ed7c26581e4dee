//! The count of operations in progress, which closes once it is 0.

use std::sync::atomic::{AtomicUsize, Ordering};

/// ```text
/// 63        62       0
/// | closed | count  |
/// ```
pub(crate) struct OpGate(AtomicUsize);

const CLOSED: usize = 1 << (usize::BITS - 1);

/// An operation in progress: MPI is not finalised meanwhile.
#[must_use = "the operation ends where this is dropped"]
pub(crate) struct InProgress(&'static OpGate);

impl OpGate {
    pub(crate) const fn new() -> Self {
        OpGate(AtomicUsize::new(0))
    }

    /// Begins an operation; `None` if the gate is closed.
    #[inline]
    pub(crate) fn enter(&'static self) -> Option<InProgress> {
        // Relaxed: the operation only has to know that the gate is open. `close` changes this very
        // word, so it fails from here on.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let entered = InProgress(self);
        (before & CLOSED == 0).then_some(entered)
    }

    /// Closes the gate.
    ///
    /// # Errors
    ///
    /// The number of operations in progress, if there are some. The gate stays as it is.
    pub(crate) fn close(&self) -> Result<(), usize> {
        // Acquire: pairs with the Release in `InProgress::drop`: the operations have ended.
        match self.0.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(found) => Err(found & !CLOSED),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed) & !CLOSED
    }
}

impl Drop for InProgress {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `close`.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_closes_only_without_operations() {
        static GATE: OpGate = OpGate::new();
        let gate = &GATE;
        let operation = gate.enter().expect("it is open");
        assert_eq!((gate.close(), gate.count()), (Err(1), 1));
        drop(operation);
        assert_eq!(gate.close(), Ok(()));
        assert!(gate.enter().is_none() && gate.close() == Err(0));
        assert_eq!(gate.count(), 0, "a refused operation leaves no count");
    }
}
