//! How a datum gets into and out of a thread.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Conductor;

/// A thread that has a CPU of its own and serves all others until the conductor
/// has halted.
pub(crate) type Agent<P> = fn(&[P], &Conductor);

/// What a thread owns so that others can send to it.
pub(crate) trait Port: Send + Sync + Sized + 'static {
    /// Called once by the owner, before anyone sends or rouses.
    fn attach(&self) {}

    /// Waits for the next datum after `last`. The owner's. After a rouse it
    /// returns anything.
    fn receive(&self, last: u64, conductor: &Conductor) -> u64;

    /// Delivers `datum` and wakes the owner.
    fn send(&self, datum: u64);

    /// Makes the owner return from its present or next wait without a datum.
    fn rouse(&self);
}

/// A way to wait for a buffer to be written, and to wake who does.
pub(crate) trait Gate: Send + Sync + Sized + 'static {
    /// Called once by the owner, when the gate will not move any more.
    fn attach(&self) {}

    /// Returns after a wake that no earlier wait returned for, or, where the
    /// mechanism looks at the buffer itself, when the turn has come.
    fn wait(&self, turn: &Turn<'_>);

    /// Wakes the owner. The buffer has been written.
    fn wake(&self);

    /// As [`Port::rouse`]; an agent may have ended.
    fn rouse(&self) {
        self.wake();
    }
}

/// What the owner of a buffer waits for.
pub(crate) struct Turn<'a> {
    datum: &'a AtomicU64,
    last: u64,
    conductor: &'a Conductor,
}

impl Turn<'_> {
    /// Whether a new datum is in the buffer, or all are to end.
    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        // Pairs with the Release in `Buffer::send`.
        self.datum.load(Ordering::Acquire) != self.last || self.conductor.halted()
    }
}

/// A thread's buffer, in one line with its gate where that is small enough.
#[repr(align(64))]
pub(crate) struct Buffer<G> {
    datum: AtomicU64,
    pub(crate) gate: G,
}

impl<G> Buffer<G> {
    /// A buffer that is written next to `gate`.
    pub(crate) fn new(gate: G) -> Self {
        Self { datum: AtomicU64::new(0), gate }
    }
}

impl<G: Gate> Port for Buffer<G> {
    fn attach(&self) {
        self.gate.attach();
    }

    #[inline]
    fn receive(&self, last: u64, conductor: &Conductor) -> u64 {
        self.gate.wait(&Turn { datum: &self.datum, last, conductor });
        // Pairs with the Release in `send`.
        self.datum.load(Ordering::Acquire)
    }

    #[inline]
    fn send(&self, datum: u64) {
        // Pairs with the Acquire in `receive` and in `Turn::has_come`.
        self.datum.store(datum, Ordering::Release);
        self.gate.wake();
    }

    fn rouse(&self) {
        self.gate.rouse();
    }
}
