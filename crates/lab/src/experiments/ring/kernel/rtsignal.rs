//! `rtsignal`: a real-time signal to the receiver, which sits in `sigwait`
//! (P1, figure 8).

use std::io;

use super::{
    harness::{Gate, Turn},
    signal::Target,
};

/// A thread that is woken by signal.
pub(super) struct RtSignal(Target);

impl Gate for RtSignal {
    const NAME: &'static str = "rtsignal";

    fn open(threads: usize) -> io::Result<Vec<Self>> {
        Ok((0..threads).map(|_| Self(Target::default())).collect())
    }

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
