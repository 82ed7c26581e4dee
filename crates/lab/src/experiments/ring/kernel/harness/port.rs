//! The way of a datum into and out of a thread.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Conductor;

/// Body of a thread with a CPU of its own that serves all threads until the conductor halts.
pub(crate) type Agent<P> = fn(&[P], &Conductor);

/// The object through which other threads send to its owner.
pub(crate) trait Port: Send + Sync + Sized + 'static {
    /// Prepares the port. Called once by the owner, before any thread sends or rouses.
    fn attach(&self) {}

    /// Waits for the next datum after `last`. Called by the owner. After a rouse the result is
    /// arbitrary.
    fn receive(&self, last: u64, conductor: &Conductor) -> u64;

    /// Delivers `datum` and wakes the owner.
    fn send(&self, datum: u64);

    /// Makes the owner return from its present or next wait without a datum.
    fn rouse(&self);
}

/// A way to wait for a buffer to be written, and to wake the waiter.
pub(crate) trait Gate: Send + Sync + Sized + 'static {
    /// Prepares the gate. Called once by the owner, when the gate will not move any more.
    fn attach(&self) {}

    /// Waits for a wake that no earlier wait returned for. A mechanism that looks at the buffer
    /// itself returns when the turn has come.
    fn wait(&self, turn: &Turn<'_>);

    /// Wakes the owner. The caller has written the buffer.
    fn wake(&self);

    /// Like [`Port::rouse`]; an agent may have ended.
    fn rouse(&self) {
        self.wake();
    }
}

/// The event that the owner of a buffer waits for.
pub(crate) struct Turn<'a> {
    datum: &'a AtomicU64,
    last: u64,
    conductor: &'a Conductor,
}

impl Turn<'_> {
    /// Whether a new datum is in the buffer, or the conductor has halted.
    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        // Pairs with the Release in `Buffer::send`.
        self.datum.load(Ordering::Acquire) != self.last || self.conductor.halted()
    }
}

/// A thread's buffer, in one cache line with its gate if that is small enough.
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
