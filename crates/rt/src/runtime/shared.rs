//! The shared part of a runtime.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use daiko_core::field;
use daiko_core::governor::Governor;
use daiko_core::hazard::Hazard;
use daiko_core::idle::IdleSet;
use daiko_core::injector::Injector;
use daiko_core::inspect::RuntimeLayout;
use daiko_sys::Scope as Reach;
use daiko_sys::generation::Generation;
use daiko_sys::lock::Tally;
use daiko_sys::selector;
use daiko_sys::user_wait::UserWait;

use super::affinity::Affinity;
use super::barriers::Barriers;
use super::pool;
use crate::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::call::InCall;
use crate::deadlock::{DeadlockHook, OwnSearch};
use crate::fiber::{ControlBlock, Kind};
use crate::jobs::BlockingPool;
use crate::monitor::{Monitor, StuckHook};
use crate::placement::Pairing;
use crate::placement::Steering;
use crate::process::process_table::ProcessTable;
use crate::worker::{Sources, Worker};

/// The phases in the life of a runtime.
pub(crate) mod phase {
    /// Fibers run.
    pub(crate) const RUNNING: u32 = 0;
    /// Fibers are unwound.
    pub(crate) const UNWINDING: u32 = 1;
    /// The time for unwinding is over: workers end where they are.
    pub(crate) const ENDING: u32 = 2;
}

/// The shared part of a runtime. It lies in the runtime's arena, until the last control block has
/// come back.
pub struct RuntimeInner {
    pub pool: pool::Pool,
    pub(super) workers: NonNull<Worker>,
    /// Workers that fibers are placed on.
    pub(super) worker_count: u32,
    /// The same plus the spare workers that follow them. The monitor makes more.
    pub(super) all_count: AtomicU32,
    /// The largest number that there is memory for.
    pub(super) most: u32,
    /// Fibers that any worker may start.
    pub(crate) injector: Injector<ControlBlock>,
    /// Parked workers.
    pub(crate) idle: IdleSet,
    pub(crate) governor: Governor,
    /// The sources that all agents poll.
    pub sources: Sources,
    /// The threads for blocking calls, where workers are threads.
    pub(crate) blocking: BlockingPool,
    pub(crate) monitor: Monitor,
    /// The control block that the monitor reads: its protected read.
    pub(crate) hazard: Hazard<ControlBlock>,
    /// A `phase`.
    pub(crate) phase: AtomicU32,
    /// True if the watches of a worker are not polled by its own agent, which is busy: other agents
    /// poll them.
    pub(crate) stand_in: AtomicBool,
    /// True once a migratable fiber has started that borrows thread-locals: such a fiber may
    /// unwind, and then stays on one kernel thread.
    pub(crate) lends_to_movers: AtomicBool,
    /// Number of spare workers that are needed now. Written by the monitor.
    pub(crate) spares: AtomicU32,
    pub(crate) barriers: Barriers,
    /// Number of workers that run no more. Each counts itself as its last access to the runtime,
    /// also if its thread stays.
    pub(crate) ended: Tally,
    /// The process table of worker processes.
    pub(crate) process_table: ProcessTable,
    /// The kernel threads of the workers and spare workers, each with the worker's index. Only in
    /// the process that built the runtime.
    pub(super) threads: Mutex<Vec<(usize, std::thread::JoinHandle<()>)>>,
    /// The way in which workers ask the kernel for descriptors, chosen at the first use unless the
    /// builder has chosen it.
    pub selector: OnceLock<selector::SelectorKind>,
    /// Placement of migratable fibers that wait for sockets.
    pub steering: Steering,
    /// The table of workers that share a core.
    pub(crate) pairing: Pairing,
    pub(crate) affinity: Affinity,
    /// The processes that have the workers: a forked child is not among them.
    pub(crate) generation: Generation,
    pub options: RuntimeOptions,
    /// Ends a fiber that is lost. A pointer, as the code that notices a loss lies below the code
    /// that ends the fiber.
    pub(crate) die: unsafe fn(&'static ControlBlock, Option<NonNull<ControlBlock>>) -> !,
}

/// Keeps the memory of a runtime beyond its end, for an object that may outlive it.
pub struct Hold(pub(super) NonNull<RuntimeInner>);

// SAFETY: `RuntimeInner` is Send and Sync.
unsafe impl Send for Hold {}
// SAFETY: as for Send.
unsafe impl Sync for Hold {}

/// The settings of the builder, which do not change.
pub struct RuntimeOptions {
    /// True if the workers are processes.
    pub(crate) processes: bool,
    /// The kind of fibers, unless the spawn asks for another.
    pub(crate) kind: Kind,
    /// True if worker processes are traced.
    pub(crate) traced: bool,
    /// True if an agent that finds a hit for a migratable fiber of another worker resumes it
    /// itself.
    pub(crate) any_agent: bool,
    /// The way in which workers ask the kernel for descriptors; `None`: the best that there is.
    pub selector: Option<selector::SelectorKind>,
    /// The instruction by which a spinning agent waits for its inbox; `None`: it looks again and
    /// again.
    pub(crate) user_wait: Option<UserWait>,
    /// Called by the monitor when a worker is stuck.
    pub(crate) on_stuck: Option<StuckHook>,
    /// Called by the monitor when fibers wait for events that cannot come.
    pub(crate) on_deadlock: Option<DeadlockHook>,
    pub(crate) own_search: Option<OwnSearch>,
    /// Called by each worker's thread before it runs fibers.
    pub(crate) on_worker_start: Option<fn()>,
}

// SAFETY: the workers and blocks that the pointers lead to are shared by the rules stated there.
unsafe impl Sync for RuntimeInner {}
// SAFETY: as for Sync.
unsafe impl Send for RuntimeInner {}

impl RuntimeInner {
    /// Its layout, for debuggers; `listed` is an array of pointers to runtimes.
    pub(crate) const fn layout(listed: *const (), most_listed: usize) -> RuntimeLayout {
        let pool = field!(RuntimeInner, pool);
        let [lent, lent_next, lent_blocks] = pool::Pool::LENT;
        RuntimeLayout {
            listed,
            most_listed: most_listed as u64,
            workers: field!(RuntimeInner, workers),
            worker_count: field!(RuntimeInner, all_count),
            lent: lent.within(pool),
            lent_next,
            lent_blocks,
        }
    }

    /// Returns the workers that fibers are placed on.
    #[inline]
    pub fn workers(&self) -> &[Worker] {
        // SAFETY: the builder made that many, and they live as long as this.
        unsafe { std::slice::from_raw_parts(self.workers.as_ptr(), self.worker_count as usize) }
    }

    /// Returns the workers, followed by the spare workers.
    pub fn all_workers(&self) -> &[Worker] {
        // Acquire: pairs with the Release in `make_spares`.
        let count = self.all_count.load(Ordering::Acquire) as usize;
        // SAFETY: the builder and the monitor made that many, and they live as long as this.
        unsafe { std::slice::from_raw_parts(self.workers.as_ptr(), count) }
    }

    /// Makes one more spare worker behind each worker, if there is memory for them. Only for the
    /// monitor.
    pub(crate) fn make_spares(&self) {
        let (before, more) = (self.all_count.load(Ordering::Relaxed), self.worker_count);
        if before + more > self.most {
            return;
        }
        let (all, scope) = (before + more, self.pool.arena().scope());
        for index in before..all {
            let worker = Worker::new(NonNull::from(self), index, self.barriers.access(), scope);
            // SAFETY: the builder has allocated so many, and only the monitor makes them.
            unsafe { self.workers.add(index as usize).write(worker) };
        }
        self.idle.grow(all as usize);
        // Release: pairs with the Acquire in `all_workers`.
        self.all_count.store(all, Ordering::Release);
    }

    /// Returns true if the caller's process has the workers, or is one: not if it was forked after
    /// the build, by other code than the runtime. Then no worker hears of it.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.generation.is_current()
    }

    #[inline]
    pub fn worker_count(&self) -> usize {
        self.worker_count as usize
    }

    #[inline]
    pub(crate) fn phase(&self) -> u32 {
        // Acquire: pairs with the Release in `shutdown`.
        self.phase.load(Ordering::Acquire)
    }

    /// Returns the scope of futex words of this runtime: the threads or processes that wait and
    /// wake.
    pub fn scope(&self) -> Reach {
        self.pool.arena().scope()
    }

    pub fn hold(&self, call: InCall<'_>) -> Hold {
        self.pool.hold(call);
        Hold(NonNull::from(self))
    }

    pub(super) fn threads(&self) -> MutexGuard<'_, Vec<(usize, std::thread::JoinHandle<()>)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a source that the agents of all workers poll may have an event that they
    /// find only by looking.
    pub(crate) fn is_awaited(&self) -> bool {
        let mut awaited = false;
        self.sources.each(|_, source| awaited |= source.is_awaited());
        awaited
    }
}

/// The runtime's own pointer to its shared part.
#[derive(Debug)]
pub(crate) struct SharedPtr(pub(crate) NonNull<RuntimeInner>);

// SAFETY: `RuntimeInner` is Send and Sync.
unsafe impl Send for SharedPtr {}
// SAFETY: as for Send.
unsafe impl Sync for SharedPtr {}
