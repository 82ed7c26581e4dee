//! The state of a worker.

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use daiko_context::StackPointer;
use daiko_core::fiber::{Access, Inbox, NextSlot};
use daiko_core::list::Fifo;
use daiko_core::place::Least;
use daiko_core::queue::Ring;
use daiko_core::turns::Turns;
use daiko_sys::Scope;

use super::counters::Counters;
use super::heir::Heir;
use super::source::Sources;
use super::succession::{self, Coming};
use super::timers::Timers;
use super::watches::Watches;
use super::{agent, steal};
use crate::fiber::ControlBlock;
use crate::jobs::Desk;
use crate::runtime::Shared;
use crate::runtime::pool::LocalPool;

/// A kernel thread that runs fibers, with its queues.
///
/// Fields in three groups by who writes them, each group on lines of its own.
#[repr(C, align(128))]
pub struct Worker {
    // Written by the owner at each hop.
    /// The fiber to run next.
    pub(super) next: NextSlot<ControlBlock>,
    /// The fiber that runs; null while the agent does.
    pub(super) running: AtomicPtr<ControlBlock>,
    /// Who has just left its stack, and what is still to be done for it there.
    pub(super) departed: Cell<Departed>,
    /// Whose turn it is at the next pick.
    pub(super) turns: Turns,
    /// Fibers that are suspended here in their unwinding.
    pub(crate) unwinding: Cell<u32>,
    /// How far below its control block the fiber resumed last had suspended, in bytes.
    pub(super) depth: Cell<usize>,
    /// Which worker is the next one on this core, counted round: its index and one; 0: none, or no fiber has a class. Written
    /// once, with that of the others.
    pub(super) sibling: AtomicU32,
    /// Where the agent left off.
    pub(super) agent: Cell<StackPointer>,
    /// Started pinned fibers that are runnable.
    pub(super) pinned: UnsafeCell<Fifo<ControlBlock>>,
    /// What this worker did.
    pub counters: Counters,
    /// Words that fibers of this worker wait for.
    pub watches: Watches,
    /// Times until which fibers wait here.
    pub timers: Timers,
    /// Sources of clients.
    pub sources: Sources,
    /// Stacks for the next fibers spawned here.
    pub(crate) pool: LocalPool,
    /// Who inherits a mutex if it is next when the mutex's holder waits.
    pub(super) heir: Cell<Option<Heir>>,

    // Read by all, written by the owner now and then.
    /// Runnable fibers that others may take: movers, and those not started.
    pub(super) ring: Ring<ControlBlock>,
    /// Started pinned fibers that have not ended, for placement.
    pub(crate) live: AtomicU32,
    /// Fibers placed here that have not started yet. Any thread.
    pub(crate) coming: AtomicU32,
    /// The runtime.
    pub(crate) runtime: NonNull<Shared>,
    /// The runtime's phase, as this worker last acted on it. Only the owner.
    pub(super) phase: Cell<u32>,
    /// Whether it has been in one fiber for long, so that movers are better woken elsewhere.
    /// Written by the monitor.
    pub(crate) stuck: AtomicBool,
    /// Whether this worker is a process of its own. Only the owner.
    pub(super) alone: Cell<bool>,
    /// How it rests: a `Rest`. Only the owner; read once its process has died.
    pub(super) rest: AtomicU32,
    /// How a process becomes this worker: a `Coming`. The zygote, then that process.
    pub(super) expected: AtomicU32,
    /// Of a process: the block below which its stack lies. Written before there are processes.
    pub(super) stack: AtomicPtr<ControlBlock>,
    /// By which name the heap knows its process. The process.
    pub(super) heap_name: AtomicU32,
    /// Of a process: the slabs of stacks that it can use. Only the owner.
    pub(super) adopted: Cell<u32>,
    /// Whether its thread ends: it runs no fiber any more and keeps none. Written by that thread.
    pub(crate) thread_ends: AtomicBool,
    /// Of a spare: whether it has a thread, or had one refused. Only the monitor.
    pub(crate) started: AtomicBool,
    /// Position among the runtime's workers and spares.
    pub index: u32,
    /// Of a spare: whether it is needed now. Written by the monitor.
    pub(crate) active: AtomicBool,
    /// What this worker, as a thief, has seen of others' next slots.
    pub(super) sights: steal::Sights,
    /// The least loaded worker, as last seen, and how many starts that is good for.
    pub(super) least: Cell<(Least, u32)>,
    /// Kernel id of the thread; 0 before it runs.
    pub(crate) thread: AtomicU32,

    // Written by others.
    /// What others want of this worker.
    pub(super) inbox: Alone<Inbox<ControlBlock>>,
    /// The monitor asks for a look at the sources at the next pick.
    pub(crate) tick: AtomicBool,
    /// 1 when an unpark has come for a parked worker: the word it sleeps on.
    pub(super) unparked: AtomicU32,
    /// What the worker sleeps in while it is parked: `TOKEN`, or the source of the bed. Written by the
    /// owner before its inbox says that it is parked; read by the thread that has taken that mark.
    pub(super) bed: AtomicU32,
    /// Of a process: where its threads take calls that block, and tell of their ends.
    pub(crate) desk: Desk,
}

/// Something on lines of its own, where the processor's fetch of the neighbour line does not reach.
#[repr(align(128))]
pub(super) struct Alone<T>(T);

impl<T> std::ops::Deref for Alone<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

// SAFETY: each group of fields says who may touch it: what only the owner touches is reached
// only through `current`, what others touch is atomic.
unsafe impl Sync for Worker {}
// SAFETY: as for Sync; a worker is built on one thread and then used on its own.
unsafe impl Send for Worker {}

/// What is to be done for a fiber once its stack is no longer in use, by whoever runs next.
#[derive(Clone, Copy)]
pub(crate) enum Departed {
    /// Nobody, or a pinned fiber, for which nothing is left to do.
    None,
    /// A mover that parks or waits: only now others may resume it.
    Suspending {
        fiber: NonNull<ControlBlock>,
        event: daiko_core::fiber::Event,
        /// Whether it had been cancelled before it suspended.
        cancelled: bool,
    },
    /// A mover that yields: only now others may take it.
    Yielding(NonNull<ControlBlock>),
    /// A fiber that was lost, and may begin anew.
    Lost {
        fiber: NonNull<ControlBlock>,
        /// The stack that it has borrowed.
        stack: Option<NonNull<ControlBlock>>,
        anew: bool,
    },
    /// A fiber that ran to its end.
    Finished(NonNull<ControlBlock>),
}

impl Worker {
    pub(crate) fn new(runtime: NonNull<Shared>, index: u32, access: Access, scope: Scope) -> Self {
        Worker {
            next: NextSlot::new(access),
            running: AtomicPtr::new(ptr::null_mut()),
            heir: Cell::new(None),
            departed: Cell::new(Departed::None),
            turns: Turns::new(),
            unwinding: Cell::new(0),
            depth: Cell::new(0),
            sibling: AtomicU32::new(0),
            agent: Cell::new(StackPointer::NULL),
            pinned: UnsafeCell::new(Fifo::new()),
            counters: Counters::default(),
            watches: Watches::new(),
            timers: const { Timers::new() },
            sources: Sources::new(scope),
            pool: LocalPool::new(),
            ring: Ring::new(),
            live: AtomicU32::new(0),
            coming: AtomicU32::new(0),
            runtime,
            phase: Cell::new(crate::runtime::phase::RUNNING),
            stuck: AtomicBool::new(false),
            alone: Cell::new(false),
            rest: AtomicU32::new(succession::Rest::No as u32),
            expected: AtomicU32::new(Coming::No as u32),
            stack: AtomicPtr::new(ptr::null_mut()),
            heap_name: AtomicU32::new(0),
            adopted: Cell::new(0),
            thread_ends: AtomicBool::new(false),
            started: AtomicBool::new(false),
            index,
            active: AtomicBool::new(false),
            sights: steal::Sights::default(),
            least: Cell::new((Least { worker: 0, load: 0 }, 0)),
            thread: AtomicU32::new(0),
            inbox: Alone(Inbox::new()),
            tick: AtomicBool::new(false),
            unparked: AtomicU32::new(0),
            bed: AtomicU32::new(agent::TOKEN),
            desk: Desk::new(),
        }
    }

    /// The runtime that this worker is of.
    #[inline]
    pub fn runtime(&self) -> &Shared {
        // SAFETY: the runtime owns its workers and outlives them.
        unsafe { self.runtime.as_ref() }
    }

    /// Whether this worker belongs to `runtime`.
    #[inline]
    pub fn is_of(&self, runtime: &Shared) -> bool {
        ptr::eq(self.runtime.as_ptr(), runtime)
    }

    /// Whether the runtime ends, so that its fibers have to.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.runtime().phase() != crate::runtime::phase::RUNNING
    }

    /// The fiber that runs here; `None` while the agent does. Only on this worker's thread.
    #[inline]
    pub(crate) fn running(&self) -> Option<&ControlBlock> {
        // Relaxed: written on this very thread.
        // SAFETY: a running fiber's control block is in use.
        unsafe { self.running.load(Ordering::Relaxed).as_ref() }
    }

    #[inline]
    pub(super) fn set_running(&self, fiber: Option<&ControlBlock>) {
        let fiber = fiber.map_or(ptr::null_mut(), |fiber| ptr::from_ref(fiber).cast_mut());
        // Release: pairs with the Acquire in `running_block`, whose caller looks into the block.
        self.running.store(fiber, Ordering::Release);
    }

    /// What runs here, as an address to compare, for the monitor.
    pub(crate) fn running_addr(&self) -> usize {
        self.running.load(Ordering::Relaxed).addr()
    }

    /// What runs here, for the monitor and for siblings: they read what any thread may. It may have ended, and another use the
    /// block.
    #[inline]
    pub(crate) fn running_block(&self) -> Option<&ControlBlock> {
        // Acquire: pairs with the Release in `set_running`.
        // SAFETY: a block is one for good, as long as the runtime, whose monitor or worker asks.
        unsafe { self.running.load(Ordering::Acquire).as_ref() }
    }

    /// Whether this worker starts fibers and takes those of others: a spare only while needed.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.index < self.runtime().worker_count() as u32 || self.active.load(Ordering::Relaxed)
    }
}
