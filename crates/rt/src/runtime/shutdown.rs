//! The end of a runtime: its fibers unwind, its workers end, its memory is freed.

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use daiko_core::fiber::Owner;

use super::handle::Runtime;
use super::shared::{Hold, RuntimeInner, phase};
use crate::atomic::Ordering;
use crate::call::{Call, InCall};
use crate::fiber::{ControlBlock, waiter};
use crate::inspect;
use crate::process::worker_processes::WorkerProcesses;
use crate::worker::{self, Worker};

/// The time that a shutdown waits for fibers to unwind, by default.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time that it then waits for the workers that are not stuck in a fiber.
const GRACE: Duration = Duration::from_millis(200);

/// The result of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Number of fibers that had not finished and were unwound.
    pub unwound: usize,
    /// Number of fibers that resisted: their stacks, and the values that they own, are never freed.
    pub leaked: usize,
    /// Number of fibers that ended with the [process of their worker](crate::process): their stacks
    /// were reused, but the values that they owned are never freed.
    pub died: usize,
    /// Number of threads of workers that have not ended, as they keep fibers that resisted. A
    /// thread with a suspended fiber [never ends](Runtime::shutdown).
    pub threads_left: usize,
}

impl Runtime {
    /// Ends the runtime: fibers that have not finished are unwound at their suspension points, so
    /// that their destructors run; then the workers end.
    ///
    /// Waits 5 seconds at most for fibers that do not suspend, or that catch the unwind again and
    /// again; they are left behind and counted. With `panic = "abort"` nothing unwinds: all fibers
    /// that have not finished are left behind. Dropping a runtime does the same, without the
    /// report.
    ///
    /// A destructor that panics while its fiber unwinds aborts the process, as in any unwinding.
    ///
    /// # Threads that stay
    ///
    /// A fiber may lend a thread-local of its worker: to a scoped fiber or thread, to a call of
    /// `daiko::blocking`, to the object that it waits for. The end of the thread would drop the
    /// thread-local. So the thread of a worker that has started a fiber which is left behind never
    /// ends: once it runs no fiber any more, it sleeps until the process ends.
    /// [`ShutdownReport::threads_left`] counts these threads. Migratable fibers must not lend
    /// thread-locals, so they keep no thread. Worker [processes](crate::process) end in any case,
    /// together with all borrowers in them.
    ///
    /// # Panics
    ///
    /// If the caller is a fiber of this runtime, or of a process other than its builder.
    pub fn shutdown(self) -> ShutdownReport {
        self.shutdown_timeout(PATIENCE)
    }

    /// Ends the runtime as [`shutdown`](Self::shutdown) does, with another time to wait.
    ///
    /// # Panics
    ///
    /// As [`shutdown`](Self::shutdown).
    pub fn shutdown_timeout(self, patience: Duration) -> ShutdownReport {
        // Never dropped: the panic below leaves the runtime as it is, and a drop would panic once
        // more.
        ManuallyDrop::new(self).end(patience)
    }

    /// Returns true if the calling process has built the runtime.
    fn is_built_here(&self) -> bool {
        self.shared().is_here()
            && self.worker_processes.as_ref().is_none_or(WorkerProcesses::is_here)
    }

    fn end(&mut self, patience: Duration) -> ShutdownReport {
        let shared = self.shared();
        assert!(
            !shared.is_caller(),
            "daiko: a fiber cannot shut its own runtime down; let a thread or another runtime's fiber"
        );
        assert!(self.is_built_here(), "daiko: a runtime is shut down by the process that built it");
        let call = Call::enter();
        let patience = if cfg!(panic = "unwind") { patience } else { Duration::ZERO };
        // Release: pairs with the Acquire in `phase`.
        shared.phase.store(phase::UNWINDING, Ordering::Release);
        shared.unpark_all(call.token());
        self.shared().await_threads(Instant::now() + patience);
        let shared = self.shared();
        shared.phase.store(phase::ENDING, Ordering::Release);
        shared.unpark_all(call.token());
        // Workers without unfinished fibers are about to end; a worker that is stuck in a fiber is
        // not, and is left behind with it.
        self.shared().monitor.end();
        if let Some(monitor) = self.monitor.take() {
            let _ = monitor.join();
        }
        // Without the monitor no further thread is started.
        let mut all_ended = self.shared().await_threads(Instant::now() + GRACE);
        let worker_processes = self.worker_processes.take();
        let shared = self.shared();
        match worker_processes {
            // Nothing is left of a process that resists.
            Some(worker_processes) => {
                worker_processes.end();
                all_ended = true;
            }
            None => shared.blocking.end(),
        }
        // Fibers of other runtimes may wait there.
        shared
            .all_workers()
            .iter()
            .for_each(|worker| worker.sources.each(|_, source| source.close(call.token())));
        shared.sources.each(|_, source| source.close(call.token()));
        let report = shared.report(call.token());
        if all_ended {
            for (index, thread) in std::mem::take(&mut *shared.threads()) {
                if shared.all_workers()[index].ends_thread() {
                    let _ = thread.join();
                }
            }
            // SAFETY: all workers have ended, or sleep for good and use the runtime no more; nor
            // does the caller.
            unsafe { RuntimeInner::close(call.token(), self.shared.0) };
        }
        report
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.shared().is_here() {
            // A copy in a forked child: it has no threads.
            return std::mem::forget(self.monitor.take());
        }
        // A second panic would abort the process; the runtime goes on, as after the first one.
        let cannot_end = self.shared().is_caller() || !self.is_built_here();
        if !(std::thread::panicking() && cannot_end) {
            self.end(PATIENCE);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let call = Call::enter();
        // SAFETY: held until here.
        let last = unsafe { self.0.as_ref() }.pool.let_go(call.token());
        // SAFETY: as above; it is not used afterwards.
        unsafe { RuntimeInner::free_if_last(self.0, last) };
    }
}

impl RuntimeInner {
    /// Returns true if the caller is a fiber or poller of this runtime.
    fn is_caller(&self) -> bool {
        worker::current().is_some_and(|worker| worker.is_of(self))
    }

    /// Waits for the workers' threads or processes to end, at most until `until`; returns true if
    /// they have.
    fn await_threads(&self, until: Instant) -> bool {
        let all = self.threads().len() as u32
            + self.process_table.worker_processes.load(Ordering::Relaxed);
        self.ended.wait(all, Some(until))
    }

    /// Returns true if no fiber is left that could still run.
    pub(crate) fn is_unwound(&self) -> bool {
        let all = self.all_workers();
        let queued = || !self.injector.is_empty();
        // Before the sums: a fiber that is not in a queue any more has been counted as started. The
        // injector is asked again, as the monitor may take a fiber from a worker to it.
        if queued() || !all.iter().all(Worker::is_drained) || queued() {
            return false;
        }
        let sum = |count: fn(&Worker) -> u64| all.iter().map(count).sum::<u64>();
        // Ends before starts: if they are equal, all fibers that had started by the second look had
        // ended by the first.
        let ends = sum(|worker| worker.counters.ends.get());
        let starts = sum(|worker| worker.counters.starts.get());
        ends == starts
    }

    /// Counts the fates of the fibers, and wakes the waiters for fibers that were left behind.
    fn report(&self, call: InCall<'_>) -> ShutdownReport {
        let mut leaked = 0;
        self.pool.for_each(call, |fiber: &ControlBlock| {
            // The completion does not tell: a handle dropped after the end leaves no trace of that
            // there, and the result's destructor may hold up a fiber at its end.
            if fiber.is_used() && !matches!(fiber.owner.load(), Owner::Finished(_)) {
                leaked += 1;
                if let Some(id) = fiber.completion.abandon() {
                    // SAFETY: `abandon` has claimed the wait.
                    unsafe { waiter::wake(call, id, worker::current()) };
                }
            }
        });
        let unwound = self.all_workers().iter().map(|worker| worker.counters.unwound.get());
        let unwound = unwound.sum::<u64>() as usize;
        let stays = |&&(index, _): &&(usize, _)| !self.all_workers()[index].ends_thread();
        let threads_left = self.threads().iter().filter(stays).count();
        ShutdownReport { unwound, leaked, died: self.process_table.fibers_lost(), threads_left }
    }

    /// Closes all inboxes and frees the memory, now or when the last handle is dropped.
    ///
    /// # Safety
    ///
    /// No worker uses the runtime any more; the caller does not use `shared` afterwards.
    unsafe fn close(call: InCall<'_>, shared: NonNull<Self>) {
        // SAFETY: valid, by this function's contract, until `destroy`.
        let this = unsafe { shared.as_ref() };
        for worker in this.all_workers() {
            worker.close(call, &this.pool);
        }
        if this.pool.close(call) {
            // SAFETY: no block is in use, and so no pointer to the runtime.
            unsafe { Self::destroy(shared) };
        }
    }

    /// Frees the runtime's memory after its end, if the caller has just returned the last part of
    /// it that was in use (`last`).
    ///
    /// # Safety
    ///
    /// `shared` is valid; if `last`, it is not afterwards.
    pub(crate) unsafe fn free_if_last(shared: NonNull<Self>, last: bool) {
        if last {
            // SAFETY: the runtime has ended, and no block is in use, and so no pointer to the
            // runtime.
            unsafe { Self::destroy(shared) };
        }
    }

    /// Frees the runtime's own memory.
    ///
    /// # Safety
    ///
    /// The runtime and its blocks are not used any more.
    pub(crate) unsafe fn destroy(shared: NonNull<Self>) {
        // SAFETY: the builder made the workers and the shared part with these layouts, in this
        // arena, and by this function's contract they are not used any more.
        unsafe {
            inspect::leave(shared);
            // Behind the removal from the list, where readers find workers.
            let is_read = shared.as_ref().all_workers().iter().any(Worker::has_reader);
            let arena = shared.as_ref().pool.arena().clone();
            let (workers, most) = (shared.as_ref().workers, shared.as_ref().most as usize);
            for index in 0..shared.as_ref().all_workers().len() {
                workers.add(index).drop_in_place();
            }
            shared.drop_in_place();
            arena.free(shared.cast(), Layout::new::<Self>());
            if is_read {
                // The workers' memory stays, with the arena that it is a part of.
                std::mem::forget(arena);
            } else {
                arena.free(workers.cast(), Self::workers_layout(most));
            }
        }
    }

    pub(super) fn workers_layout(count: usize) -> Layout {
        Layout::array::<Worker>(count).expect("below isize::MAX")
    }
}
