//! What all parts of a runtime share.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use daiko_core::glance::Glance;
use daiko_core::governor::Governor;
use daiko_core::idle::IdleSet;
use daiko_core::injector::Injector;
use daiko_sys::Scope as Reach;
use daiko_sys::cpu::CpuSet;
use daiko_sys::lock::Tally;
use daiko_sys::selector;

use super::kernel::Barriers;
use super::pool;
use crate::deadlock::DeadlockHook;
use crate::fiber::ControlBlock;
use crate::jobs::BlockingPool;
use crate::monitor::{Monitor, StuckHook};
use crate::pairing::Pairing;
use crate::placement::Steering;
use crate::process::crew::Roster;
use crate::worker::{Sources, Worker};

/// Where a runtime is in its life.
pub(crate) mod phase {
    /// Fibers run.
    pub(crate) const RUNNING: u32 = 0;
    /// Fibers are unwound.
    pub(crate) const UNWINDING: u32 = 1;
    /// Time is up: workers end where they are.
    pub(crate) const ENDING: u32 = 2;
}

/// What all parts of a runtime share. It lies in the runtime's arena, until the last control
/// block has come back.
pub struct Shared {
    pub pool: pool::Pool,
    pub(super) workers: NonNull<Worker>,
    /// Workers that fibers are placed on.
    pub(super) worker_count: u32,
    /// The same and the spares behind them.
    pub(super) all_count: u32,
    /// Fibers that anyone may start.
    pub(crate) injector: Injector<ControlBlock>,
    /// Parked workers.
    pub(crate) idle: IdleSet,
    pub(crate) governor: Governor,
    /// What the agents of all workers poll.
    pub sources: Sources,
    /// For blocking calls, where workers are threads.
    pub(crate) blocking: BlockingPool,
    pub(crate) monitor: Monitor,
    /// The control block that the monitor reads.
    pub(crate) glance: Glance<ControlBlock>,
    /// A `phase`.
    pub(crate) phase: AtomicU32,
    /// Some worker's watches are not sampled by its own agent, which is busy: others do.
    pub(crate) stand_in: AtomicBool,
    /// How many spares are needed now. Written by the monitor.
    pub(crate) spares: AtomicU32,
    pub(crate) barriers: Barriers,
    /// Workers that run no more. Counted up by each as the last thing that it does with the
    /// runtime, also if its thread stays.
    pub(crate) ended: Tally,
    /// Of worker processes: how they have come up.
    pub(crate) roster: Roster,
    /// The kernel threads of the workers and spares, each with the worker's index. Only the process
    /// that made the runtime.
    pub(super) threads: Mutex<Vec<(usize, std::thread::JoinHandle<()>)>>,
    /// How workers ask the kernel for descriptors, once one does and nothing was asked for.
    pub selector: OnceLock<selector::Kind>,
    /// Where movers go that wait for sockets.
    pub steering: Steering,
    /// Which workers share a core.
    pub(crate) pairing: Pairing,
    /// The CPUs that workers are bound to.
    pub(crate) cpus: CpuSet,
    pub options: Options,
}

/// Keeps the memory of a runtime beyond its end, for what may outlive it.
pub struct Hold(pub(super) NonNull<Shared>);

// SAFETY: `Shared` is Send and Sync.
unsafe impl Send for Hold {}
// SAFETY: as for Send.
unsafe impl Sync for Hold {}

/// What was asked for at the start and does not change.
pub struct Options {
    /// Whether the workers are processes.
    pub(crate) processes: bool,
    /// `kind` bits of all fibers.
    pub(crate) kind: u8,
    /// Whether worker processes are traced.
    pub(crate) traced: bool,
    /// Whether an agent that finds another's fiber hit resumes it itself, if it is a mover.
    pub(crate) any_agent: bool,
    /// How workers are to ask the kernel for descriptors; `None`: as is best.
    pub selector: Option<selector::Kind>,
    /// Called by the monitor when a worker is stuck.
    pub(crate) on_stuck: Option<StuckHook>,
    /// Called by the monitor when fibers wait for what will not come.
    pub(crate) on_deadlock: Option<DeadlockHook>,
}

// SAFETY: the workers and blocks that the pointers lead to are shared by the rules stated there.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    /// The workers that fibers are placed on.
    #[inline]
    pub fn workers(&self) -> &[Worker] {
        // SAFETY: the builder made that many, and they live as long as this.
        unsafe { std::slice::from_raw_parts(self.workers.as_ptr(), self.worker_count as usize) }
    }

    /// The workers and the spares.
    pub fn all_workers(&self) -> &[Worker] {
        // SAFETY: as in `workers`.
        unsafe { std::slice::from_raw_parts(self.workers.as_ptr(), self.all_count as usize) }
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

    /// Who waits for words of this runtime, and who wakes them.
    pub fn scope(&self) -> Reach {
        self.pool.arena().scope()
    }

    pub fn hold(&self) -> Hold {
        self.pool.hold();
        Hold(NonNull::from(self))
    }

    pub(super) fn threads(&self) -> MutexGuard<'_, Vec<(usize, std::thread::JoinHandle<()>)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a source that the agents of all workers poll may come to something.
    pub(crate) fn is_awaited(&self) -> bool {
        let mut awaited = false;
        self.sources.each(|_, source| awaited |= source.is_awaited());
        awaited
    }
}

/// The runtime's own pointer to its shared part.
#[derive(Debug)]
pub(crate) struct SharedPtr(pub(crate) NonNull<Shared>);

// SAFETY: `Shared` is Send and Sync.
unsafe impl Send for SharedPtr {}
// SAFETY: as for Send.
unsafe impl Sync for SharedPtr {}
