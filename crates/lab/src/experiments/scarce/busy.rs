//! Processes that compute without end.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::kit::{Failure, ForkShared, OrFailure, Processes, Zeroed};

/// Number of processes that compute.
#[derive(Default)]
struct Begun(AtomicUsize);

// SAFETY: an atomic number, for which zero is a valid value.
unsafe impl Zeroed for Begun {}

/// Starts `count` processes that compute until the result is dropped, or this process ends.
/// Returns when all of them have begun.
pub(super) fn start(count: usize) -> Result<Processes, Failure> {
    let begun = ForkShared::<Begun>::new(1)?;
    let mut processes = Processes::default();
    for _ in 0..count {
        processes.fork(|| compute(&begun[0])).or_limit("cannot start a busy process")?;
    }
    // Relaxed, like the addition: no data depend on it.
    while begun[0].0.load(Ordering::Relaxed) < count {
        thread::yield_now();
    }
    Ok(processes)
}

fn compute(begun: &Begun) -> ! {
    begun.0.fetch_add(1, Ordering::Relaxed);
    let mut value = 1_u64;
    loop {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
