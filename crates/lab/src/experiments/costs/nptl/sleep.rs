//! Sleeps in the kernel with the timer slack that it gives every thread: a sleep may take up to 50
//! µs longer, so that several sleeps end together.

use std::time::Duration;

use super::primitives::Semaphore;
use crate::{
    experiments::costs::{item::MOST_THREADS, sleep::Sleep},
    kit::{Skip, pthread},
};

/// `clock_nanosleep` to an absolute time.
pub(super) struct Posix;

impl Sleep for Posix {
    type Semaphore = Semaphore;

    fn sleep(_: Duration, due: u64) {
        pthread::sleep_until(due);
    }
}

/// Fails with the reason to skip unless this many threads can wait.
pub(super) fn room_for(timers: usize) -> Result<(), Skip> {
    if timers <= MOST_THREADS {
        return Ok(());
    }
    Err(Skip::new(format!("who waits is a kernel thread: up to {MOST_THREADS} are created")))
}
