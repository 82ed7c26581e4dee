//! Sleeps in the kernel with the timer slack that it gives every thread: a sleep may take up to 50
//! µs longer, so that several sleeps end together.

use std::time::Duration;

use super::primitives::PosixSemaphore;
use crate::experiments::costs::item::MOST_THREADS;
use crate::experiments::costs::sleep::{Sleep, lateness};
use crate::experiments::costs::threads::{KernelThreads, on_one_cpu};
use crate::kit::{Effort, Failure, Sample, Skip, pthread};

/// `clock_nanosleep` to an absolute time.
struct Posix;

impl Sleep for Posix {
    type Semaphore = PosixSemaphore;

    fn sleep(_: Duration, due: u64) {
        pthread::sleep_until(due);
    }
}

/// Fails with the reason to skip unless this many threads can wait.
pub(super) fn room_for(timers: usize) -> Result<(), Skip> {
    if timers <= MOST_THREADS {
        return Ok(());
    }
    Err(Skip::new(format!("each waiter is a kernel thread: up to {MOST_THREADS} are created")))
}

/// Sleeps on one CPU.
pub(super) fn sleeps(length: Duration, timers: usize, effort: Effort) -> Result<Sample, Failure> {
    on_one_cpu(move |effort| lateness::<KernelThreads, Posix>(length, timers, effort), effort)
}
