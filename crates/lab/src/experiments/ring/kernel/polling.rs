//! `polling`: every thread spins on its own buffer.

use std::{hint, io, thread};

use super::harness::{Gate, Turn};
use crate::{
    experiments::ring::{Cpus, Spec},
    kit::Skip,
};

/// Nothing: the buffer is all there is.
pub(super) struct Polling;

/// Threads that are measured on however few CPUs.
const FEW: usize = 10;

fn cpus(spec: &Spec) -> usize {
    match spec.cpus {
        Cpus::All => thread::available_parallelism().map_or(1, usize::from),
        Cpus::One => 1,
    }
}

impl Gate for Polling {
    const NAME: &'static str = "polling";

    /// With more threads than CPUs, a hop waits for the end of a time slice.
    fn first_laps(spec: &Spec) -> Option<u64> {
        (spec.threads > cpus(spec)).then_some(1)
    }

    fn supports(spec: &Spec) -> Result<(), Skip> {
        if spec.threads > FEW.max(2 * cpus(spec)) {
            let line = "more polling threads than twice the CPUs: a hop takes many time slices";
            return Err(Skip::new(line));
        }
        Ok(())
    }

    fn open(threads: usize) -> io::Result<Vec<Self>> {
        Ok((0..threads).map(|_| Self).collect())
    }

    #[inline]
    fn wait(&self, turn: &Turn<'_>) {
        while !turn.has_come() {
            hint::spin_loop();
        }
    }

    #[inline]
    fn wake(&self) {}
}
