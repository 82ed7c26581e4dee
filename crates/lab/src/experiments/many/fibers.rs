//! Fibers that park, and that sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use daiko::{JoinHandle, Runtime, RuntimeBuilder};

use super::phases::{Phases, all_ended, sleeps};
use crate::kit::free_memory::resident_bytes;
use crate::kit::{Failure, FiberKind};

/// Size of a stack.
const STACK: usize = 64 << 10;

fn builder() -> RuntimeBuilder {
    Runtime::builder().workers(1).bind(true).stack_size(STACK)
}

pub(super) fn parked(kind: FiberKind, threads: usize) -> Result<Phases, Failure> {
    let runtime = builder().build()?;
    let all = runtime.spawn(move || {
        let suspended = Arc::new(AtomicUsize::new(0));
        let mut phases = Phases::default();
        let mut fibers = Vec::with_capacity(threads);
        let begin = Instant::now();
        for _ in 0..threads {
            let suspended = Arc::clone(&suspended);
            // SAFETY: the fiber uses no thread-local but those of the runtime.
            let builder = unsafe { kind.builder() };
            fibers.push(builder.spawn(move || {
                // Relaxed: the reader is on the same worker.
                suspended.fetch_add(1, Ordering::Relaxed);
                daiko::park();
            })?);
        }
        await_count(&suspended, threads);
        phases.start = begin.elapsed();
        phases.resident = resident_bytes(std::process::id())?;

        let begin = Instant::now();
        fibers.iter().for_each(|fiber| fiber.fiber().unpark());
        let mut left = &fibers[..];
        while !all_ended(&mut left, JoinHandle::is_finished) {
            daiko::yield_now();
        }
        phases.wake = begin.elapsed();

        let begin = Instant::now();
        fibers.into_iter().try_for_each(JoinHandle::join)?;
        phases.join = begin.elapsed();
        Ok(phases)
    });
    all.join()?
}

/// Yields until so many fibers have counted themselves.
fn await_count(counted: &AtomicUsize, count: usize) {
    while counted.load(Ordering::Relaxed) < count {
        daiko::yield_now();
    }
}

pub(super) fn asleep(kind: FiberKind, threads: usize) -> Result<(), Failure> {
    let runtime = builder().build()?;
    let all = runtime.spawn(move || {
        let mut fibers = Vec::with_capacity(threads);
        for length in sleeps(threads) {
            // SAFETY: the fiber uses no thread-local but those of the runtime.
            let builder = unsafe { kind.builder() };
            fibers.push(builder.spawn(move || daiko::time::sleep(length))?);
        }
        Ok(fibers.into_iter().try_for_each(JoinHandle::join)?)
    });
    all.join()?
}
