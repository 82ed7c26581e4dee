//! `rtsignal`: a real-time signal to the receiver, which waits in `sigwait` (P1, figure 8).

use super::harness::{Gate, Turn};
use super::signal::SignalTarget;

/// The gate of a thread that is woken by signal.
#[derive(Default)]
pub(super) struct RtSignal(SignalTarget);

impl Gate for RtSignal {
    fn attach(&self) {
        self.0.attach();
    }

    fn wait(&self, _: &Turn<'_>) {
        self.0.wait();
    }

    fn wake(&self) {
        self.0.signal();
    }
}
