//! `agent+rtsignal`: one thread polls for all threads and wakes them by signal (P1, figure 9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{hint, io};

use super::harness::{Buffer, Conductor, Gate, Turn, ports};
use super::signal::SignalTarget;
use crate::experiments::ring::{Cpus, Method, RingSpec};
use crate::kit::{Skip, host};

/// The receiver has asked the agent to wake it.
const ASKED: u32 = 1;
/// The sender has written the datum.
const NOTIFIED: u32 = 2;

/// The gate of a thread that asks the agent to wake it.
pub(super) struct Asked {
    target: SignalTarget,
    /// The words of all threads, close together, as the agent reads them continuously.
    area: Arc<[AtomicU32]>,
    index: usize,
}

pub(super) fn method() -> Method {
    Method { supports: Box::new(supports), ..ports("agent+rtsignal", open, Some(poll)) }
}

/// Checks that an agent can have a CPU of its own.
fn supports(spec: &RingSpec) -> Result<(), Skip> {
    if host::cpus() < 2 {
        return Err(Skip::new("the agent needs a CPU of its own: allow two or more"));
    }
    match spec.cpus {
        Cpus::One => Err(Skip::new("not with cpus=one: the agent needs a CPU of its own")),
        Cpus::All => Ok(()),
    }
}

fn open(threads: usize) -> io::Result<Vec<Buffer<Asked>>> {
    let area: Arc<[AtomicU32]> = (0..threads).map(|_| AtomicU32::new(0)).collect();
    let gate = |index| Asked { target: SignalTarget::default(), area: Arc::clone(&area), index };
    Ok((0..threads).map(|index| Buffer::new(gate(index))).collect())
}

impl Gate for Asked {
    fn attach(&self) {
        self.target.attach();
    }

    fn wait(&self, _: &Turn<'_>) {
        // Relaxed: asking publishes no other data.
        self.area[self.index].fetch_or(ASKED, Ordering::Relaxed);
        self.target.wait();
    }

    fn wake(&self) {
        // Release: pairs with the Acquire in `poll`; the datum was written.
        self.area[self.index].fetch_or(NOTIFIED, Ordering::Release);
    }

    fn rouse(&self) {
        self.target.signal();
    }
}

/// Body of the agent: signals each thread that has asked and was notified.
fn poll(buffers: &[Buffer<Asked>], conductor: &Conductor) {
    let area = &buffers[0].gate.area;
    while !conductor.halted() {
        for (word, buffer) in area.iter().zip(buffers) {
            // Acquire: pairs with the Release in `wake`.
            if word.load(Ordering::Acquire) == ASKED | NOTIFIED {
                // Relaxed: the receiver waits, and its next notifier comes after it in the ring.
                // The signal orders the rest.
                word.store(0, Ordering::Relaxed);
                buffer.gate.target.signal();
            }
        }
        hint::spin_loop();
    }
}
