//! `std-park`: `std::thread::park` and `unpark`.

use std::sync::OnceLock;
use std::thread::{self, Thread};

use crate::experiments::ring::kernel::harness::{Gate, Turn};

/// Handle of the thread, once it is attached.
#[derive(Default)]
pub(super) struct StdPark(OnceLock<Thread>);

impl Gate for StdPark {
    fn attach(&self) {
        self.0.get_or_init(thread::current);
    }

    fn wait(&self, turn: &Turn<'_>) {
        while !turn.has_come() {
            thread::park();
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}
