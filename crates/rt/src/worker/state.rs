//! The state of a worker.

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};

use daiko_context::StackPointer;
use daiko_context::seat::Seat;
use daiko_core::bed::WorkerBed;
use daiko_core::budget::PickBudget;
use daiko_core::cancel::ScopeMark;
use daiko_core::fiber::{Access, Inbox, LifoSlot, WaiterId};
use daiko_core::field;
use daiko_core::governor::IdleTimes;
use daiko_core::hosting::Hosting;
use daiko_core::injector::Injector;
use daiko_core::inspect::{Words, WorkerLayout};
use daiko_core::list::Fifo;
use daiko_core::loan::PokeWord;
use daiko_core::mutex::RawMutex;
use daiko_core::place::Least;
use daiko_core::queue::StealQueue;
use daiko_core::timer::Wheel;
use daiko_core::trace::Recorder;
use daiko_core::wait::Node;
use daiko_core::watch::WatchTable;
use daiko_sys::Scope;

use super::addressee::Addressee;
use super::attention::Attention;
use super::counters::{self, Counters};
use super::source::Sources;
use super::stage::Coming;
use super::steal_history::StealHistory;
use crate::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::call::token::InCall;
use crate::deadline::Deadline;
use crate::fiber::{ControlBlock, Lender};
use crate::jobs::SubmissionQueue;
use crate::runtime::RuntimeInner;
use crate::runtime::pool::LocalPools;

/// A kernel thread that runs fibers, with its queues.
///
/// The fields form three groups by the threads that write them, each group on lines of its own.
#[repr(C, align(128))]
pub struct Worker {
    // Written by the owner at each context switch.
    /// The LIFO slot: the fiber to run next.
    pub(super) next: LifoSlot<ControlBlock>,
    /// The fiber that runs; null while the agent does.
    pub(super) running: AtomicPtr<ControlBlock>,
    /// The fiber that has just left its stack, and the work that is left to do for it there.
    pub(super) departed: Cell<Departed>,
    /// The budget of the LIFO slot, and the queue that is served next.
    pub(super) budget: PickBudget,
    /// Number of fibers that are suspended here while they unwind.
    pub(crate) unwinding: Cell<u32>,
    /// Distance in bytes from the control block of the fiber resumed last down to its saved stack
    /// pointer.
    pub(super) depth: Cell<usize>,
    /// Index + 1 of the next worker on this core, counted round; 0: there is none, or no fiber has
    /// a class. Written once, together with those of the other workers.
    pub(super) sibling: AtomicU32,
    /// The saved stack pointer of the agent.
    pub(super) agent: Cell<StackPointer>,
    /// The seat of the worker's thread. Only the owner, while its thread runs.
    pub(super) seat: Cell<Option<&'static Seat>>,
    /// Started pinned fibers that are runnable.
    pub(super) pinned: UnsafeCell<Fifo<ControlBlock>>,
    /// The events of this worker, counted.
    pub counters: Counters,
    /// The worker that may answer. Only the owner.
    pub(super) addressee: Addressee,
    /// Words that fibers of this worker wait for.
    pub watches: Watches,
    /// Times until which fibers wait here.
    pub timers: Timers,
    /// Sources of clients.
    pub sources: Sources,
    /// Stacks for the next fibers spawned here.
    pub(crate) pool: LocalPools,
    /// The events of this worker, for a reader outside.
    pub(super) recorder: Recorder,
    /// The direct hand-off: the fiber that takes a mutex over if it runs next when the holder
    /// waits.
    pub(super) hand_off: Cell<Option<HandOff>>,

    /// Guests: a bit for each worker that this one has taken.
    pub(super) guests: Cell<u64>,
    /// The host whose thread runs this worker at this time.
    pub(super) host: Cell<Option<NonNull<Worker>>>,
    /// True if this guest has a fiber that needs the worker's own thread.
    pub(super) needs_thread: Cell<bool>,
    /// The time at which the sleep of the worker's thread ends.
    pub(super) sleeps_until: Cell<Deadline>,
    /// Number of started pinned fibers that borrow the thread-locals of the worker's thread.
    pub(super) borrowed: Cell<u32>,

    // Read by all workers, rarely written by the owner.
    /// Runnable fibers that other workers may take: migratable and unstarted fibers.
    pub(super) ring: StealQueue<ControlBlock>,
    /// Work that fibers of this worker offer to all workers.
    pub(super) offers: StealQueue<Offer>,
    /// Number of started pinned fibers that have not ended, for placement.
    pub(crate) live: AtomicU32,
    /// Number of fibers placed here that have not started yet. Written by any thread.
    pub(crate) coming: AtomicU32,
    /// The runtime.
    pub(crate) runtime: NonNull<RuntimeInner>,
    /// The runtime's phase, as this worker last acted on it. Only the owner.
    pub(super) phase: Cell<u32>,
    /// Set by the monitor if the worker has been in one fiber for long, so that fibers are better
    /// started, and migratable fibers woken, elsewhere.
    pub(crate) stuck: AtomicBool,
    /// True if this worker is a process of its own. Only the owner.
    pub(super) alone: Cell<bool>,
    /// True while the worker sleeps, with nothing in hand. Only the owner, and the successor once
    /// the process has died.
    pub(super) sleeps: AtomicBool,
    /// True if the monitor does not count this worker as one that runs. Users as above.
    pub(super) counted_out: AtomicBool,
    /// The way in which a process becomes this worker: a `Coming`. Written by the zygote, then by
    /// that process.
    pub(super) expected: AtomicU32,
    /// The block below which the worker's own stack lies, if it is a process. Written before there
    /// are processes.
    pub(super) stack: AtomicPtr<ControlBlock>,
    /// The heap's name for the worker's process. Written by that process.
    pub(super) heap_name: AtomicU32,
    /// Number of slabs of stacks that the worker's process can use. Only the owner.
    pub(super) adopted: Cell<u32>,
    /// True once the worker's thread is about to end: it runs no fiber any more and keeps none.
    /// Written by that thread.
    pub(crate) thread_ends: AtomicBool,
    /// True if this spare worker has a thread, or was refused one. Only the monitor.
    pub(crate) started: AtomicBool,
    /// Position among the runtime's workers and spare workers.
    pub index: u32,
    /// True while this worker starts fibers and steals; else it stands by. Written by the monitor.
    pub(crate) active: AtomicBool,
    /// The times for which the agent was idle, if the runtime has goals. Only the owner writes.
    pub(crate) idle_times: IdleTimes,
    /// The steal history: this worker's looks, as a thief, at the LIFO slots of other workers.
    pub(super) steal_history: StealHistory,
    /// The least loaded worker as last seen, and for how many more starts that is taken as true.
    pub(super) least: Cell<(Least, u32)>,
    /// The CPU on which the worker was when it last idled, plus 1; 0: not known. Written by the
    /// owner, a hint for other workers.
    pub(super) cpu: AtomicU32,
    /// Kernel id of the thread; 0 before it runs.
    pub(crate) thread: AtomicU32,
    /// The poke that is on its way to the worker's thread.
    pub(crate) poke: PokeWord,

    // Written by other threads.
    /// Messages to this worker.
    pub(super) inbox: Alone<Inbox<ControlBlock>>,
    /// Fibers that placement has sent here and that have not started. The monitor takes them back
    /// from a stuck worker.
    pub(super) placed: Injector<ControlBlock>,
    /// Requests for the next pick.
    pub(crate) attention: Attention,
    /// The thread that has this worker: its own, or that of a host.
    pub(crate) hosting: Hosting,
    /// True if this guest had more to run when its host left it. Written by the host.
    pub(crate) backlog: AtomicBool,
    /// Index + 1 of the guest that runs on this worker's thread; 0: none. For the monitor.
    pub(crate) runs_guest: AtomicU32,
    /// The time of the last wake by the kernel. Written by the thread that gives the token.
    pub(super) woken_ns: AtomicU64,
    /// The bed in which the parked worker sleeps, and the token that ends the sleep.
    pub(super) bed: WorkerBed,
    /// The submission queue, where the threads of a worker process take blocking calls and report
    /// their ends.
    pub(crate) submissions: SubmissionQueue,
}

/// A fiber that will lock a mutex as soon as it runs, unless its node says that it holds it
/// already.
#[derive(Clone, Copy)]
pub(crate) struct HandOff {
    pub(super) fiber: NonNull<ControlBlock>,
    pub(super) node: NonNull<Node<WaiterId>>,
    pub(super) mutex: NonNull<RawMutex<WaiterId>>,
}

/// Work that a fiber offers to all workers. It lies in the frame of that fiber, which does not
/// leave the frame before it has taken the work back or the work has ended.
pub(crate) struct Offer {
    /// Makes a fiber of the work, or returns it to its owner; by the worker that has claimed it.
    pub(crate) begin: unsafe fn(NonNull<Offer>, InCall<'_>, &Worker),
}

/// The fiber that a timer interrupts. If the timer ends a scope, also that scope.
#[derive(Clone, Copy)]
pub(crate) struct Sleeper {
    pub(super) fiber: NonNull<ControlBlock>,
    pub(super) scope: Option<NonNull<ScopeMark>>,
}

// SAFETY: an interrupt may come from any thread that polls for the fiber's worker.
unsafe impl Send for Sleeper {}

/// A worker's timers. The worker arms and fires them; a migratable fiber disarms its own from any
/// worker.
pub struct Timers(pub(super) Wheel<Sleeper>);

/// The waiter that an entry wakes: a fiber, or the ticket of one.
#[derive(Clone, Copy)]
pub struct Watcher(pub(super) WaiterId);

/// The watches of the fibers that began to wait on one worker.
pub struct Watches(pub(super) WatchTable<Watcher>);

/// A value on lines of its own, where the processor's fetch of the neighbour line does not reach.
#[repr(align(128))]
pub(super) struct Alone<T>(T);

impl<T> std::ops::Deref for Alone<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

// SAFETY: each group of fields says which threads may touch it: fields for the owner alone are
// reached only through `current`, and fields for other threads are atomic.
unsafe impl Sync for Worker {}
// SAFETY: as for Sync; a worker is built on one thread and then used on its own.
unsafe impl Send for Worker {}

/// The work for a fiber that has left its stack. The fiber or agent that runs next does it.
#[derive(Clone, Copy)]
pub(crate) enum Departed {
    /// No work is left: the agent, or a pinned fiber.
    None,
    /// A migratable fiber that parks or waits: only now may other workers resume it.
    Suspending {
        fiber: NonNull<ControlBlock>,
        event: daiko_core::fiber::Transition,
        /// True if it had been cancelled before it suspended.
        cancelled: bool,
    },
    /// A migratable fiber that yields: only now may other workers take it.
    Yielding(NonNull<ControlBlock>),
    /// A lost fiber, which may begin anew.
    Lost {
        fiber: NonNull<ControlBlock>,
        /// The stack that it has borrowed.
        stack: Option<NonNull<ControlBlock>>,
        anew: bool,
    },
    /// A fiber that ran to its end.
    Finished(NonNull<ControlBlock>),
    /// A context that goes home: the fiber has ended, the context goes on.
    GoesHome { fiber: NonNull<ControlBlock>, lender: NonNull<Lender> },
}

impl Worker {
    /// Its layout, for debuggers.
    pub(crate) const LAYOUT: WorkerLayout = WorkerLayout {
        bytes: size_of::<Self>() as u64,
        index: field!(Worker, index),
        running: field!(Worker, running),
        thread: field!(Worker, thread),
        active: field!(Worker, active),
        stuck: field!(Worker, stuck),
        counters: field!(Worker, counters),
        counter_names: Words::new(counters::NAMES),
        recorder: Recorder::LAYOUT.within(field!(Worker, recorder)),
    };

    pub(crate) fn new(
        runtime: NonNull<RuntimeInner>,
        index: u32,
        access: Access,
        scope: Scope,
    ) -> Self {
        Worker {
            next: LifoSlot::new(access),
            running: AtomicPtr::new(ptr::null_mut()),
            recorder: Recorder::new(),
            hand_off: Cell::new(None),
            guests: Cell::new(0),
            host: Cell::new(None),
            needs_thread: Cell::new(false),
            sleeps_until: Cell::new(Deadline::NEVER),
            borrowed: Cell::new(0),
            departed: Cell::new(Departed::None),
            budget: PickBudget::new(),
            unwinding: Cell::new(0),
            depth: Cell::new(0),
            sibling: AtomicU32::new(0),
            agent: Cell::new(StackPointer::NULL),
            seat: Cell::new(None),
            pinned: UnsafeCell::new(Fifo::new()),
            counters: Counters::default(),
            addressee: Addressee::default(),
            watches: Watches::new(),
            timers: const { Timers::new() },
            sources: Sources::new(scope),
            pool: LocalPools::new(),
            ring: StealQueue::new(),
            offers: StealQueue::new(),
            live: AtomicU32::new(0),
            coming: AtomicU32::new(0),
            runtime,
            phase: Cell::new(crate::runtime::phase::RUNNING),
            stuck: AtomicBool::new(false),
            alone: Cell::new(false),
            sleeps: AtomicBool::new(false),
            counted_out: AtomicBool::new(true),
            expected: AtomicU32::new(Coming::No as u32),
            stack: AtomicPtr::new(ptr::null_mut()),
            heap_name: AtomicU32::new(0),
            adopted: Cell::new(0),
            thread_ends: AtomicBool::new(false),
            started: AtomicBool::new(false),
            index,
            active: AtomicBool::new(false),
            idle_times: IdleTimes::new(),
            steal_history: StealHistory::default(),
            least: Cell::new((Least { worker: 0, load: 0 }, 0)),
            cpu: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            poke: PokeWord::new(),
            inbox: Alone(Inbox::new()),
            placed: Injector::new(),
            attention: Attention::new(),
            hosting: Hosting::new(),
            backlog: AtomicBool::new(false),
            woken_ns: AtomicU64::new(0),
            runs_guest: AtomicU32::new(0),
            bed: WorkerBed::new(),
            submissions: SubmissionQueue::new(),
        }
    }

    /// Returns the runtime of this worker.
    #[inline]
    pub fn runtime(&self) -> &RuntimeInner {
        // SAFETY: the runtime owns its workers and outlives them.
        unsafe { self.runtime.as_ref() }
    }

    /// Returns true if this worker belongs to `runtime`.
    #[inline]
    pub fn is_of(&self, runtime: &RuntimeInner) -> bool {
        ptr::eq(self.runtime.as_ptr(), runtime)
    }

    /// Returns true if the runtime is shutting down, so that its fibers have to end.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.runtime().phase() != crate::runtime::phase::RUNNING
    }

    /// Returns the running fiber; `None` while the agent runs. Only on this worker's thread.
    #[inline]
    pub(crate) fn running(&self) -> Option<&ControlBlock> {
        // Relaxed: written on this very thread.
        // SAFETY: a running fiber's control block is in use.
        unsafe { self.running.load(Ordering::Relaxed).as_ref() }
    }

    /// Returns this worker and its running fiber, if there is one. Only on this worker's thread.
    #[inline]
    pub(super) fn with_running(&self) -> Option<(&Self, &ControlBlock)> {
        self.running().map(|fiber| (self, fiber))
    }

    #[inline]
    pub(super) fn set_running(&self, fiber: Option<&ControlBlock>) {
        // Release: pairs with the Acquire in `running_block`, which allows its caller to read the
        // block.
        self.running.store(
            fiber.map_or(ptr::null_mut(), |fiber| ptr::from_ref(fiber).cast_mut()),
            Ordering::Release,
        );
    }

    /// Returns the address of the running fiber's block, for the monitor to compare; 0 while the
    /// agent runs.
    pub(crate) fn running_addr(&self) -> usize {
        self.running.load(Ordering::Relaxed).addr()
    }

    /// Returns the same of the worker that runs on this worker's thread: itself, or a guest.
    pub(crate) fn running_here(&self) -> usize {
        match self.runs_guest.load(Ordering::Relaxed).checked_sub(1) {
            Some(guest) => self.runtime().workers()[guest as usize].running_addr(),
            None => self.running_addr(),
        }
    }

    /// Returns the running fiber's block, for the monitor and for siblings, which may read the
    /// fields that any thread may read. The fiber may have ended, and another may use the block.
    #[inline]
    pub(crate) fn running_block(&self) -> Option<&ControlBlock> {
        // Acquire: pairs with the Release in `set_running`.
        // SAFETY: a block stays one as long as the runtime, which calls.
        unsafe { self.running.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the position among the runtime's workers and spare workers.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.index as usize
    }

    /// Returns true if this worker stands in for stuck workers.
    pub(crate) fn is_spare(&self) -> bool {
        self.position() >= self.runtime().worker_count()
    }

    /// Returns true if fibers that may run elsewhere had better come here: the worker is active,
    /// and not stuck. A hint: a fiber that is sent here at this moment is taken back.
    #[inline]
    pub(crate) fn accepts_fibers(&self) -> bool {
        self.is_active() && !self.stuck.load(Ordering::Relaxed)
    }

    /// Returns true if this worker starts fibers and steals. A worker that stands by runs only the
    /// fibers that are pinned to it: a worker without a CPU of its own, or a spare worker that is
    /// not needed.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        // Relaxed: a fiber that comes too late finds its way by `wake_one`.
        self.active.load(Ordering::Relaxed)
    }
}
