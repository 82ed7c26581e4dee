//! `polling`: every thread spins on its own buffer.

use std::{hint, thread};

use super::harness::{Gate, Turn, gates};
use crate::experiments::ring::{Cpus, Method, RingSpec};
use crate::kit::Skip;

/// An empty gate: the buffer suffices.
#[derive(Default)]
pub(super) struct Polling;

/// Number of threads that is measured on any number of CPUs.
const FEW: usize = 10;

fn cpus(spec: &RingSpec) -> usize {
    match spec.cpus {
        Cpus::All => thread::available_parallelism().map_or(1, usize::from),
        Cpus::One => 1,
    }
}

pub(super) fn method() -> Method {
    Method { supports: Box::new(supports), first_laps, ..gates::<Polling>("polling") }
}

/// Laps of the first run. A hop between more threads than CPUs waits for the end of a time slice.
fn first_laps(spec: &RingSpec) -> u64 {
    if spec.threads > cpus(spec) { 1 } else { spec.usual_laps() }
}

fn supports(spec: &RingSpec) -> Result<(), Skip> {
    if spec.threads > FEW.max(2 * cpus(spec)) {
        let line = "more polling threads than twice the CPUs: a hop takes many time slices";
        return Err(Skip::new(line));
    }
    Ok(())
}

impl Gate for Polling {
    #[inline]
    fn wait(&self, turn: &Turn<'_>) {
        while !turn.has_come() {
            hint::spin_loop();
        }
    }

    #[inline]
    fn wake(&self) {}
}
