//! The end of a runtime: its fibers unwind, its workers end, its memory goes back.

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use daiko_core::fiber::Owner;

use super::{Runtime, Shared, phase};
use crate::fiber::{ControlBlock, waiter};
use crate::process;
use crate::process::crew::Crew;
use crate::worker::{self, Worker};

/// How long a shutdown waits for fibers to unwind, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it then waits for the workers that are not stuck in a fiber.
const GRACE: Duration = Duration::from_millis(200);

/// What a shutdown found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Fibers that had not finished and were unwound.
    pub unwound: usize,
    /// Fibers that resisted: their stacks, and what they own, are never freed.
    pub leaked: usize,
    /// Fibers that ended with the [process of their worker](crate::process): their stacks came back, what they
    /// owned is never freed.
    pub died: usize,
}

impl Runtime {
    /// Ends the runtime: fibers that have not finished are unwound at their suspension points, so
    /// that their destructors run; then the workers end.
    ///
    /// Waits 5 seconds at most for fibers that do not suspend, or catch the unwind again and
    /// again; they are left behind and counted. With `panic = "abort"` nothing unwinds: all that
    /// have not finished are left behind. Dropping a runtime does the same, without the report.
    ///
    /// # Panics
    ///
    /// If the caller is a fiber of this runtime, or of another process than the one that built it.
    pub fn shutdown(self) -> ShutdownReport {
        self.shutdown_timeout(PATIENCE)
    }

    /// As [`shutdown`](Self::shutdown), with another time to wait.
    ///
    /// # Panics
    ///
    /// If the caller is a fiber of this runtime.
    pub fn shutdown_timeout(self, patience: Duration) -> ShutdownReport {
        // Never dropped: after the panic below, which leaves the runtime as it is, a drop would
        // panic once more.
        ManuallyDrop::new(self).end(patience)
    }

    fn end(&mut self, patience: Duration) -> ShutdownReport {
        let shared = self.shared();
        assert!(
            !shared.is_caller(),
            "daiko: a fiber cannot shut its own runtime down; let a thread or another runtime's fiber"
        );
        assert!(
            self.crew.as_ref().is_none_or(Crew::is_here),
            "daiko: a runtime whose workers are processes is shut down by the process that built it"
        );
        let _call = process::call();
        let patience = if cfg!(panic = "unwind") { patience } else { Duration::ZERO };
        // Release: pairs with the Acquire in `phase`.
        shared.phase.store(phase::UNWINDING, Ordering::Release);
        shared.unpark_all();
        self.shared().await_threads(Instant::now() + patience);
        let shared = self.shared();
        shared.phase.store(phase::ENDING, Ordering::Release);
        shared.unpark_all();
        // Those whose fibers went along are on their way out; a worker that is stuck in a fiber
        // is not, and is left behind with it.
        self.shared().monitor.end();
        if let Some(monitor) = self.monitor.take() {
            let _ = monitor.join();
        }
        // Without the monitor no further thread is started.
        let mut all_ended = self.shared().await_threads(Instant::now() + GRACE);
        let crew = self.crew.take();
        let shared = self.shared();
        match crew {
            // Nothing is left of a process that resists.
            Some(crew) => {
                crew.end();
                all_ended = true;
            }
            None => shared.blocking.end(),
        }
        // Fibers of other runtimes may wait there.
        shared
            .all_workers()
            .iter()
            .for_each(|worker| worker.sources.each(|_, source| source.close()));
        let report = shared.report();
        if all_ended {
            for thread in std::mem::take(&mut *shared.threads()) {
                let _ = thread.join();
            }
            // SAFETY: all workers have ended, and the runtime is not used any more.
            unsafe { Shared::close(self.shared.0) };
        }
        report
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A second panic would abort the process; the runtime goes on, as after the first one.
        let here = self.crew.as_ref().is_none_or(Crew::is_here);
        if !(std::thread::panicking() && (self.shared().is_caller() || !here)) {
            self.end(PATIENCE);
        }
    }
}

impl Shared {
    /// Whether a fiber or poller of this runtime calls.
    fn is_caller(&self) -> bool {
        worker::current().is_some_and(|worker| worker.is_of(self))
    }

    /// Waits for the workers' threads or processes to end, at most until `until`; whether they have.
    fn await_threads(&self, until: Instant) -> bool {
        let all = self.threads().len() as u32 + self.roster.crew.load(Ordering::Relaxed);
        self.ended.wait(all, Some(until))
    }

    /// Whether no fiber is left that could still do anything.
    pub(crate) fn is_unwound(&self) -> bool {
        let all = self.all_workers();
        // Before the sums: what is not drained any more has been counted as started.
        if !self.injector.is_empty() || !all.iter().all(Worker::is_drained) {
            return false;
        }
        let sum = |count: fn(&Worker) -> u64| all.iter().map(count).sum::<u64>();
        // Ends before starts: if they are equal, all that had started by the second look had
        // ended by the first.
        let ends = sum(|worker| worker.counters.ends.get());
        let starts = sum(|worker| worker.counters.starts.get());
        ends == starts
    }

    /// Counts what came of the fibers, and tells who still waits for one that was left behind.
    fn report(&self) -> ShutdownReport {
        let mut leaked = 0;
        self.pool.for_each(|fiber: &ControlBlock| {
            // Not the completion: a handle that went after the end has left no trace of that there, and
            // the result's destructor may hold up a fiber whose end has come.
            if fiber.is_used() && !matches!(fiber.owner.load(), Owner::Finished(_)) {
                leaked += 1;
                if let Some(id) = fiber.completion.abandon() {
                    // SAFETY: to abandon is to claim the wait.
                    unsafe { waiter::wake(id, worker::current()) };
                }
            }
        });
        let unwound = self.all_workers().iter().map(|worker| worker.counters.unwound.get());
        let unwound = unwound.sum::<u64>() as usize;
        ShutdownReport { unwound, leaked, died: self.roster.fibers_lost() }
    }

    /// Closes all inboxes and gives the memory back, now or when the last handle is dropped.
    ///
    /// # Safety
    ///
    /// All workers have ended; the caller does not use `shared` afterwards.
    unsafe fn close(shared: NonNull<Self>) {
        // SAFETY: valid, by this function's contract, until `destroy`.
        let this = unsafe { shared.as_ref() };
        for worker in this.all_workers() {
            worker.close(&this.pool);
        }
        if this.pool.close() {
            // SAFETY: nobody has a block, and so a way to the runtime.
            unsafe { Self::destroy(shared) };
        }
    }

    /// Gives the runtime's own memory back.
    ///
    /// # Safety
    ///
    /// Nobody uses the runtime, or any block of it, any more.
    pub(crate) unsafe fn destroy(shared: NonNull<Self>) {
        // SAFETY: the builder made the workers and the shared part with these layouts, in this
        // arena, and by this function's contract nobody uses them.
        unsafe {
            let arena = shared.as_ref().pool.arena().clone();
            let (workers, count) = (shared.as_ref().workers, shared.as_ref().all_count as usize);
            for index in 0..count {
                workers.add(index).drop_in_place();
            }
            shared.drop_in_place();
            arena.free(workers.cast(), Self::workers_layout(count));
            arena.free(shared.cast(), Layout::new::<Self>());
        }
    }

    pub(super) fn workers_layout(count: usize) -> Layout {
        Layout::array::<Worker>(count).expect("below isize::MAX")
    }
}
