//! Fibers, and the workers that run them.

use std::sync::OnceLock;
use std::time::Duration;

use daiko::sync::Semaphore;
use daiko::{Builder, JoinHandle, Runtime, RuntimeBuilder};

use crate::experiments::costs::create::{Create, TOKEN};
use crate::experiments::costs::item::Body;
use crate::experiments::costs::sleep::Sleep;
use crate::experiments::costs::threads;
use crate::kit::{Effort, Failure, Sample, Skip, host};

/// What workers are.
pub(super) trait Workers: 'static {
    /// Of so many.
    fn builder(workers: usize) -> RuntimeBuilder;

    /// Whether some of their fibers are pinned while two workers run.
    fn pins() -> Result<(), Skip>;
}

/// Threads of this process.
pub(super) struct Threads;

impl Workers for Threads {
    fn builder(workers: usize) -> RuntimeBuilder {
        Runtime::builder().workers(workers)
    }

    fn pins() -> Result<(), Skip> {
        room()
    }
}

/// Whether two workers run at the same time.
pub(super) fn room() -> Result<(), Skip> {
    match cpus() {
        0 | 1 => Err(Skip::new("workers run beside each other where two CPUs or more are allowed")),
        _ => Ok(()),
    }
}

/// Processes forked from this one.
pub(super) struct Processes;

impl Workers for Processes {
    fn builder(workers: usize) -> RuntimeBuilder {
        // SAFETY: all that fibers share is on the heap, where they wait by objects of daiko's only; `Course` has its
        // `OnceLock` set before others ask for it. They change no static, map nothing, and have nothing in a
        // thread-local across a suspension.
        unsafe { Runtime::builder().process_workers(workers) }
    }

    fn pins() -> Result<(), Skip> {
        Err(Skip::new("all fibers of processes are movers"))
    }
}

/// Runs `body` in a fiber, on one worker.
pub(super) fn run<W: Workers>(body: Body, effort: Effort) -> Result<Sample, Failure> {
    run_on::<W, _>(1, move || body(effort))
}

/// Runs `body` in a fiber, on so many workers.
pub(super) fn run_on<W: Workers, T: Send + 'static>(
    workers: usize,
    body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    run_in(W::builder(workers), body)
}

/// The CPUs of this process. Asked first outside of a runtime: its workers are bound to one each.
pub(super) fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(host::cpus)
}

/// Runs `body` in a fiber of that runtime.
pub(super) fn run_in<T: Send + 'static>(
    builder: RuntimeBuilder,
    body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    builder.build()?.run(body)
}

/// Fibers that a fiber creates: on its own worker, or if they are spread, in turn on all workers of
/// its runtime, which has as many as there are CPUs.
pub(super) struct Created<const SPREAD: bool>;

pub(super) type Fibers = Created<false>;
pub(super) type Spread = Created<true>;

impl Create for Fibers {
    type Thread = JoinHandle<u64>;

    fn new() -> Result<Self, Failure> {
        Ok(Self)
    }

    #[inline]
    fn create(&self, _: usize, _: usize) -> Result<JoinHandle<u64>, Failure> {
        Ok(Builder::new().spawn(|| TOKEN)?)
    }

    fn run(&self, threads: &[JoinHandle<u64>]) {
        while !threads.iter().all(JoinHandle::is_finished) {
            daiko::yield_now();
        }
    }

    #[inline]
    fn join(thread: JoinHandle<u64>) -> Result<u64, Failure> {
        Ok(thread.join()?)
    }
}

impl<const SPREAD: bool> threads::Threads for Created<SPREAD> {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn spawn<T: Send + 'static>(
        index: usize,
        _: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Failure> {
        let builder = Builder::new();
        let builder = if SPREAD { builder.on(index % cpus()) } else { builder };
        Ok(builder.spawn(body)?)
    }

    fn join<T: Send + 'static>(thread: JoinHandle<T>) -> Result<T, Failure> {
        Ok(thread.join()?)
    }

    /// Inlined, so that all who yield do so in places of their own.
    #[inline(always)]
    fn yield_now() {
        daiko::yield_now();
    }
}

impl Sleep for Fibers {
    type Semaphore = Semaphore;

    fn sleep(length: Duration, _: u64) {
        daiko::time::sleep(length);
    }
}
