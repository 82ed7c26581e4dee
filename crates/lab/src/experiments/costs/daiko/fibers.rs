//! Fibers and the workers that run them.

use std::sync::OnceLock;
use std::time::Duration;

use daiko::sync::Semaphore;
use daiko::{Builder, JoinHandle, Runtime, RuntimeBuilder};

use crate::experiments::costs::create::{Create, TOKEN};
use crate::experiments::costs::item::SampleBody;
use crate::experiments::costs::sleep::Sleep;
use crate::experiments::costs::threads;
use crate::kit::{Effort, Failure, Sample, Skip, host};

/// A kind of workers and of their fibers.
pub(super) trait Workers: 'static {
    /// The fibers that a fiber creates on its own worker.
    type Fibers: Create + threads::Threads;

    /// Builder of a runtime with this many workers.
    fn builder(workers: usize) -> RuntimeBuilder;

    /// Builder of a fiber that other workers may take.
    fn mover() -> Builder {
        Builder::new().migratable()
    }

    /// Runs `body` in a fiber.
    fn run<T: Send + 'static>(
        runtime: &Runtime,
        body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        runtime.run(body)
    }

    /// Fails with the reason to skip if fibers cannot be pinned while two workers run.
    fn pins() -> Result<(), Skip>;
}

/// Threads of this process.
pub(super) struct Threads;

impl Workers for Threads {
    type Fibers = Fibers;

    fn builder(workers: usize) -> RuntimeBuilder {
        Runtime::builder().workers(workers)
    }

    fn pins() -> Result<(), Skip> {
        room()
    }
}

/// Threads of this process whose fibers borrow their thread-locals.
pub(super) struct Lenders;

impl Workers for Lenders {
    type Fibers = Fibers;

    fn builder(workers: usize) -> RuntimeBuilder {
        // SAFETY: the fibers of this experiment use no thread-local but that of `info`, which is a
        // plain number without initializer and is not used across a suspension, and those of the
        // runtime and the allocator.
        unsafe { Runtime::builder().workers(workers).borrowed() }
    }

    fn mover() -> Builder {
        // SAFETY: as above. They keep only values that are `Send` across a suspension, and no lock
        // of `std`.
        unsafe { Builder::new().borrowed_migratable() }
    }

    fn pins() -> Result<(), Skip> {
        room()
    }
}

/// Threads of this process whose fibers have thread-locals of their own, and may move.
pub(super) struct Movers;

impl Workers for Movers {
    type Fibers = Fibers;

    fn builder(workers: usize) -> RuntimeBuilder {
        Runtime::builder().workers(workers).migratable()
    }

    fn pins() -> Result<(), Skip> {
        room()
    }
}

/// Threads of this process whose fibers borrow their thread-locals, and may move. Each fiber asks
/// for that.
pub(super) struct BorrowedMovers;

impl Workers for BorrowedMovers {
    type Fibers = Created<false, true>;

    fn builder(workers: usize) -> RuntimeBuilder {
        Runtime::builder().workers(workers)
    }

    fn mover() -> Builder {
        Lenders::mover()
    }

    fn run<T: Send + 'static>(
        runtime: &Runtime,
        body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        runtime.spawn_with(Self::mover(), body)?.join()?
    }

    fn pins() -> Result<(), Skip> {
        room()
    }
}

/// Fails with the reason to skip if two workers cannot run at the same time.
pub(super) fn room() -> Result<(), Skip> {
    match cpus() {
        0 | 1 => Err(Skip::new("workers run beside each other where two CPUs or more are allowed")),
        _ => Ok(()),
    }
}

/// Processes forked from this one.
pub(super) struct Processes;

impl Workers for Processes {
    type Fibers = Fibers;

    fn builder(workers: usize) -> RuntimeBuilder {
        // SAFETY: all data that fibers share is on the heap. They wait there through objects of
        // daiko only; the `OnceLock` of `CrowdRun` is set before other fibers read it. They change
        // no static, map no memory, and keep nothing in thread-local storage across a suspension.
        unsafe { Runtime::builder().process_workers(workers) }
    }

    fn pins() -> Result<(), Skip> {
        Err(Skip::new("all fibers of processes are migratable fibers"))
    }
}

/// Runs `body` in a fiber, on one worker.
pub(super) fn run<W: Workers>(body: SampleBody, effort: Effort) -> Result<Sample, Failure> {
    run_on::<W, _>(1, move || body(effort))
}

/// Runs `body` in a fiber, on this many workers.
pub(super) fn run_on<W: Workers, T: Send + 'static>(
    workers: usize,
    body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    W::run(&W::builder(workers).build()?, body)
}

/// Number of CPUs of this process. The first call must be outside of a runtime, as each of its
/// workers is bound to one CPU.
pub(super) fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(host::cpus)
}

/// Runs `body` in a fiber of the built runtime. Its workers are bound to CPUs of their own, so that
/// they run beside each other.
pub(super) fn run_in<T: Send + 'static>(
    builder: RuntimeBuilder,
    body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    builder.bind(true).build()?.run(body)
}

/// Fibers created by a fiber. They are created on its own worker, or with `SPREAD` round-robin on
/// all workers of the runtime, one per CPU. They are of the runtime's kind, or with `MOVERS` those
/// of [`BorrowedMovers`].
pub(super) struct Created<const SPREAD: bool, const MOVERS: bool>;

pub(super) type Fibers = Created<false, false>;
pub(super) type Spread = Created<true, false>;

impl<const SPREAD: bool, const MOVERS: bool> Created<SPREAD, MOVERS> {
    #[inline]
    fn builder() -> Builder {
        if MOVERS { BorrowedMovers::mover() } else { Builder::new() }
    }
}

impl<const MOVERS: bool> Create for Created<false, MOVERS> {
    type Thread = JoinHandle<u64>;

    fn new() -> Result<Self, Failure> {
        Ok(Self)
    }

    #[inline]
    fn create(&self, _: usize, _: usize) -> Result<JoinHandle<u64>, Failure> {
        Ok(Self::builder().spawn(|| TOKEN)?)
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

impl<const SPREAD: bool, const MOVERS: bool> threads::Threads for Created<SPREAD, MOVERS> {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn spawn<T: Send + 'static>(
        index: usize,
        _: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Failure> {
        let builder = Self::builder();
        let builder = if SPREAD { builder.on(index % cpus()) } else { builder };
        Ok(builder.spawn(body)?)
    }

    fn join<T: Send + 'static>(thread: JoinHandle<T>) -> Result<T, Failure> {
        Ok(thread.join()?)
    }

    /// Inlined, so that each caller yields at a place of its own.
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }

    /// Whether fibers that a fiber creates share its thread-locals.
    fn share<W: Workers>() -> bool {
        let body = || {
            NUMBER.set(5);
            let seen = <W::Fibers as threads::Threads>::spawn(0, 1, || NUMBER.get())?;
            Ok(<W::Fibers as threads::Threads>::join(seen)? == 5)
        };
        run_on::<W, _>(1, body).unwrap()
    }

    #[test]
    fn fibers_that_borrow_share_thread_locals() {
        assert!(!share::<Threads>() && !share::<Movers>());
        assert!(share::<Lenders>() && share::<BorrowedMovers>());
    }
}
