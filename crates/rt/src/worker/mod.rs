//! Workers: kernel threads that run fibers.
//!
//! `schedule` picks the next fiber, `suspend` is the one place where stacks are switched,
//! `agent` polls when no fiber is runnable, `mail` is what others want of a worker,
//! `succession` is what becomes of one whose process was killed.

mod agent;
mod counters;
mod heir;
mod mail;
mod pair;
mod schedule;
mod source;
mod steal;
mod succession;
pub mod suspend;
mod timers;
mod watches;

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

use self::counters::Counters;
pub use self::counters::WorkerCounters;
use self::heir::Heir;
pub use self::mail::{Wish, mail_pinned, send, wake_mover};
pub use self::source::{Bed, Round, Rung, Source, SourceKey, Sources};
pub(crate) use self::succession::{Coming, Plan, Unclear};
pub(crate) use self::timers::Timers;
pub use self::watches::{Watcher, Watches};
use crate::fiber::ControlBlock;
use crate::jobs::Desk;
use crate::runtime::Shared;
use crate::runtime::pool::{LocalPool, Pool};
use crate::wait::Deadline;

thread_local! {
    /// The worker that this kernel thread is, if any.
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
    /// The same, if workers are processes. By itself, as what is read from users' crates costs an instruction more.
    static OF_PROCESS: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// The worker that this kernel thread is.
///
/// Never inlined: a compiler may keep the address of a thread-local across a call, and so across
/// a suspension after which a mover runs on another thread.
#[inline(never)]
pub fn current() -> Option<&'static Worker> {
    // SAFETY: a worker lives while its thread runs; what runs on that thread does not outlive
    // the thread's `Worker::main`, which sets and clears the pointer.
    let worker = unsafe { CURRENT.get().as_ref() };
    // SAFETY: no instruction; it keeps the compiler from inferring that the function only reads,
    // so that two calls are never merged into one.
    unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
    worker
}

/// As [`current`], where workers are processes: inlined, as the thread pointer is the same in all of them, so that an
/// address which the compiler keeps is right wherever the caller goes on. Not so a value: it is read anew each time.
#[inline(always)]
pub(crate) fn current_of_process() -> Option<&'static Worker> {
    let worker = OF_PROCESS.with(Cell::as_ptr);
    // SAFETY: as for `current`; the cell is there as long as its thread, which calls.
    unsafe { worker.read_volatile().as_ref() }
}

/// A kernel thread that runs fibers, with its queues.
///
/// Fields in three groups by who writes them, each group on lines of its own.
#[repr(C, align(128))]
pub struct Worker {
    // Written by the owner at each hop.
    /// The fiber to run next.
    next: NextSlot<ControlBlock>,
    /// The fiber that runs; null while the agent does.
    running: AtomicPtr<ControlBlock>,
    /// Who has just left its stack, and what is still to be done for it there.
    departed: Cell<Departed>,
    /// Whose turn it is at the next pick.
    turns: Turns,
    /// Fibers that are suspended here in their unwinding.
    pub(crate) unwinding: Cell<u32>,
    /// How far below its control block the fiber resumed last had suspended, in bytes.
    depth: Cell<usize>,
    /// Which worker is the next one on this core, counted round: its index and one; 0: none, or no fiber has a class. Written
    /// once, with that of the others.
    sibling: AtomicU32,
    /// Where the agent left off.
    agent: Cell<StackPointer>,
    /// Started pinned fibers that are runnable.
    pinned: UnsafeCell<Fifo<ControlBlock>>,
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
    heir: Cell<Option<Heir>>,

    // Read by all, written by the owner now and then.
    /// Runnable fibers that others may take: movers, and those not started.
    ring: Ring<ControlBlock>,
    /// Started pinned fibers that have not ended, for placement.
    pub(crate) live: AtomicU32,
    /// Fibers placed here that have not started yet. Any thread.
    pub(crate) coming: AtomicU32,
    /// The runtime.
    pub(crate) runtime: NonNull<Shared>,
    /// The runtime's phase, as this worker last acted on it. Only the owner.
    phase: Cell<u32>,
    /// Whether it has been in one fiber for long, so that movers are better woken elsewhere.
    /// Written by the monitor.
    pub(crate) stuck: AtomicBool,
    /// Whether this worker is a process of its own. Only the owner.
    alone: Cell<bool>,
    /// How it rests: a `Rest`. Only the owner; read once its process has died.
    rest: AtomicU32,
    /// How a process becomes this worker: a `Coming`. The zygote, then that process.
    expected: AtomicU32,
    /// Of a process: the block below which its stack lies. Written before there are processes.
    stack: AtomicPtr<ControlBlock>,
    /// By which name the heap knows its process. The process.
    heap_name: AtomicU32,
    /// Of a process: the slabs of stacks that it can use. Only the owner.
    adopted: Cell<u32>,
    /// Of a spare: whether it has a thread, or had one refused. Only the monitor.
    pub(crate) started: AtomicBool,
    /// Position among the runtime's workers and spares.
    pub index: u32,
    /// Of a spare: whether it is needed now. Written by the monitor.
    pub(crate) active: AtomicBool,
    /// What this worker, as a thief, has seen of others' next slots.
    sights: steal::Sights,
    /// The least loaded worker, as last seen, and how many starts that is good for.
    least: Cell<(Least, u32)>,
    /// Kernel id of the thread; 0 before it runs.
    pub(crate) thread: AtomicU32,

    // Written by others.
    /// What others want of this worker.
    inbox: Alone<Inbox<ControlBlock>>,
    /// The monitor asks for a look at the sources at the next pick.
    pub(crate) tick: AtomicBool,
    /// 1 when an unpark has come for a parked worker: the word it sleeps on.
    unparked: AtomicU32,
    /// What the worker sleeps in while it is parked: `TOKEN`, or the source of the bed. Written by the
    /// owner before its inbox says that it is parked; read by the thread that has taken that mark.
    bed: AtomicU32,
    /// Of a process: where its threads take calls that block, and tell of their ends.
    pub(crate) desk: Desk,
}

/// Something on lines of its own, where the processor's fetch of the neighbour line does not reach.
#[repr(align(128))]
struct Alone<T>(T);

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

/// Calls `f` as an agent would: what needs a fiber panics inside.
pub fn without_fiber<R>(f: impl FnOnce() -> R) -> R {
    let Some(worker) = current() else { return f() };
    let running = worker.running.swap(ptr::null_mut(), Ordering::Relaxed);
    let result = f();
    // Release: as in `set_running`.
    worker.running.store(running, Ordering::Release);
    result
}

/// Whether the caller is an agent: of users' code only a poller may be.
pub fn is_agent() -> bool {
    current().is_some_and(|worker| worker.running().is_none())
}

/// Keeps pollers out of what would block their agent.
///
/// # Panics
///
/// If the caller is an agent: `what` names the call.
pub fn assert_no_poller(what: &str) {
    assert!(!is_agent(), "daiko: a poller must not wait in {what}; unpark a fiber that does");
}

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
    fn set_running(&self, fiber: Option<&ControlBlock>) {
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

    /// The thread's life: runs fibers until the runtime ends.
    pub(crate) fn main(&self) {
        self.be_here();
        // Timers are to be exact also where the worker sleeps; where they cannot be, they are late.
        let _ = daiko_sys::thread::set_timer_slack_ns(1);
        self.runtime().monitor.worker_runs();
        self.run_agent();
        self.runtime().monitor.worker_parks();
        self.sources.each(|_, source| source.leave());
        CURRENT.set(ptr::null());
        OF_PROCESS.set(ptr::null());
    }

    /// Makes the calling thread this worker.
    fn be_here(&self) {
        CURRENT.set(self);
        if self.alone.get() {
            OF_PROCESS.set(self);
        }
        self.thread.store(daiko_sys::thread::id(), Ordering::Relaxed);
    }

    /// As [`main`](Self::main), as the main thread of a process of its own.
    pub(crate) fn main_of_process(&self) {
        self.alone.set(true);
        self.main();
    }

    /// Whether no fiber waits for this worker to start it.
    pub(crate) fn is_drained(&self) -> bool {
        // Not asked of the inbox: the monitor may have its mail in hand.
        // Acquire: pairs with the Release in `start`.
        self.ring.steal().is_empty() && self.coming.load(Ordering::Acquire) == 0
    }

    /// Whether the worker runs no fiber, and will not before somebody else does something for it.
    pub(crate) fn rests(&self) -> bool {
        self.running_addr() == 0
            && (self.is_parked() || !self.inbox.has_mail())
            && self.is_drained()
            && !self.is_awaited()
            && self.timers.next_due() == Deadline::NEVER
    }

    /// Takes no more mail, and gives back what the worker kept. Once its thread has ended.
    pub(crate) fn close(&self, pool: &Pool) {
        for (fiber, postcard) in self.inbox.close() {
            if postcard.is_none() {
                // SAFETY: letters keep the fiber in use.
                self.discard_letters(unsafe { fiber.as_ref() });
            }
        }
        self.pool.give_back(pool, usize::MAX);
        self.give_stack_back();
    }
}
