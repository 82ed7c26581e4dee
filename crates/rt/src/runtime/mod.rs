//! The runtime: its workers, its memory, its life.

mod builder;
mod default;
pub mod kernel;
pub(crate) mod pool;
mod selection;
mod shutdown;

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use daiko_core::fiber::{Letters, Posted};
use daiko_core::glance::Glance;
use daiko_core::governor::Governor;
use daiko_core::idle::IdleSet;
use daiko_core::injector::Injector;
use daiko_core::list::Chain;
use daiko_core::place::{self, Least};
use daiko_sys::Scope as Reach;
use daiko_sys::cpu::CpuSet;
use daiko_sys::lock::Tally;
use daiko_sys::selector;

pub(crate) use self::builder::set_up_thread;
pub use self::builder::{BuildError, RuntimeBuilder};
pub use self::default::of;
pub use self::default::{default_runtime, run};
use self::kernel::{Barriers, ThisThread};
pub use self::selection::Selector;
pub use self::shutdown::ShutdownReport;
use crate::deadlock::DeadlockHook;
use crate::fiber::{self, Builder, ControlBlock, JoinHandle, Place, Scope, SpawnError, flag};
use crate::jobs::BlockingPool;
use crate::monitor::{Monitor, StuckHook};
use crate::pairing::Pairing;
use crate::placement::Steering;
use crate::process;
use crate::process::crew::{Crew, Roster};
use crate::worker::{self, Sources, Worker, WorkerCounters};
pub use daiko_core::governor::Preset;

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
    workers: NonNull<Worker>,
    /// Workers that fibers are placed on.
    worker_count: u32,
    /// The same and the spares behind them.
    all_count: u32,
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
    /// Workers that run no more. Counted up by each as the last thing that it does with the runtime.
    pub(crate) ended: Tally,
    /// Of worker processes: how they have come up.
    pub(crate) roster: Roster,
    /// The kernel threads of the workers, those of spares too. Only the process that made the runtime.
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
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
pub struct Hold(NonNull<Shared>);

// SAFETY: `Shared` is Send and Sync.
unsafe impl Send for Hold {}
// SAFETY: as for Send.
unsafe impl Sync for Hold {}

impl Drop for Hold {
    fn drop(&mut self) {
        let _call = process::call();
        // SAFETY: held until here.
        let last = unsafe { self.0.as_ref() }.pool.let_go();
        // SAFETY: as above; it is not used afterwards.
        unsafe { Shared::free_if_last(self.0, last) };
    }
}

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

    fn threads(&self) -> MutexGuard<'_, Vec<std::thread::JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a new fiber where a worker will find it. `here` is the worker that calls, if one of
    /// this runtime does.
    pub(crate) fn launch(&self, fiber: &ControlBlock, here: Option<&Worker>, place: Place) {
        match (place, here) {
            (Place::On(worker), from) => self.send_start(from, worker, fiber),
            (Place::Spread, from) if self.worker_count > 1 => {
                let me = from.map_or(0, |worker| worker.index as usize);
                self.send_start(from, self.least_loaded(me).worker, fiber);
            }
            (_, Some(worker)) => worker.enqueue_stealable(fiber),
            (_, None) => self.inject_one(fiber),
        }
    }

    /// The worker that has the fewest fibers, `me` if it is among those.
    pub(crate) fn least_loaded(&self, me: usize) -> Least {
        place::least(self.workers().iter().map(Worker::load), me)
    }

    /// Hands an unstarted fiber to `worker`, where it starts for sure: it is not placed twice.
    pub(crate) fn send_start(&self, from: Option<&Worker>, worker: usize, fiber: &ControlBlock) {
        fiber.flags.update(|flags| flags | flag::PLACED);
        self.workers()[worker].coming.fetch_add(1, Ordering::Relaxed);
        if fiber.mail.post(Letters::START) == Posted::Push {
            self.workers()[worker].deliver(from, fiber);
        }
    }

    /// Puts an active fiber where any worker takes it.
    pub(crate) fn inject_one(&self, fiber: &ControlBlock) {
        // SAFETY: the caller has the fiber alone, so it is in no list; it is in use until it has
        // run.
        unsafe { self.injector.push(&ThisThread, NonNull::from(fiber)) };
        self.work_is_available();
    }

    /// Puts fibers where any worker takes them.
    pub(crate) fn inject(&self, fibers: Chain<ControlBlock>) {
        self.injector.push_chain(&ThisThread, fibers);
    }

    /// Makes all workers look again at what there is to do.
    pub fn unpark_all(&self) {
        process::assert_in_call();
        // Pairs with the barrier between a worker's parked mark and its last look.
        fence(Ordering::SeqCst);
        for worker in self.all_workers() {
            worker.unpark(worker::current());
        }
    }

    /// Frees the runtime's memory if what the caller has just given back was the last of it that
    /// was out after its end.
    ///
    /// # Safety
    ///
    /// `shared` is valid; if `last`, it is not afterwards.
    pub(crate) unsafe fn free_if_last(shared: NonNull<Self>, last: bool) {
        if last {
            // SAFETY: the runtime has ended, and nobody has a block, and so a way to it.
            unsafe { Self::destroy(shared) };
        }
    }

    /// Wakes a parked worker, if there is one, because something that anyone may take was queued.
    #[inline]
    pub(crate) fn work_is_available(&self) {
        // The one worker of a runtime knows what it queues itself; not what its spare does.
        let alone = self.worker_count == 1
            && self.spares.load(Ordering::Relaxed) == 0
            && worker::current().is_some_and(|worker| ptr::eq(worker, &self.workers()[0]));
        if !alone {
            self.wake_one();
        }
    }

    /// Returns true if a source that the agents of all workers poll may come to something.
    pub(crate) fn is_awaited(&self) -> bool {
        let mut awaited = false;
        self.sources.each(|_, source| awaited |= source.is_awaited());
        awaited
    }

    /// The barrier between making work available and looking for parked workers. A runtime of one worker has others
    /// make work for it so seldom that they pay, and not each park.
    pub(crate) fn idle_barrier(&self) -> Barriers {
        if self.worker_count > 1 { self.barriers } else { Barriers::Fences }
    }

    pub(crate) fn wake_one(&self) {
        process::assert_in_call();
        let on_idle_core = |worker: usize| self.all_workers()[worker].has_core_alone();
        if let Some(index) = self.idle.pick_one(&self.idle_barrier(), on_idle_core) {
            self.all_workers()[index].unpark(worker::current());
        }
    }

    /// Where `worker`, about to start a fiber, should have it started.
    #[inline]
    pub(crate) fn place_start(&self, worker: &Worker) -> place::Start {
        if self.worker_count == 1 { place::Start::Here } else { worker.place_start() }
    }
}

/// Workers that run fibers, and what belongs to them.
///
/// Most programs use the default runtime, by [`run`] and [`spawn`](crate::spawn). Dropping a runtime
/// ends it, as [`shutdown`](Runtime::shutdown) does.
///
/// ```
/// # use daiko_rt as daiko;
/// let runtime = daiko::Runtime::builder().workers(2).build().unwrap();
/// let sum = runtime.run(|| {
///     let a = daiko::spawn(|| 1);
///     let b = daiko::spawn(|| 2);
///     a.join().unwrap() + b.join().unwrap()
/// });
/// assert_eq!(sum, 3);
/// assert_eq!(runtime.shutdown().leaked, 0);
/// ```
///
/// # Panics
///
/// If it is dropped by one of its own fibers or pollers, which would have to wait for itself. While
/// the thread is panicking ([`std::thread::panicking`]) it does not panic again; the runtime then
/// stays as it is. Keep it where none of its fibers owns it.
#[derive(Debug)]
pub struct Runtime {
    shared: SharedPtr,
    monitor: Option<std::thread::JoinHandle<()>>,
    /// The processes of its workers, if they are processes.
    crew: Option<Crew>,
}

/// The runtime's own pointer to its shared part.
#[derive(Debug)]
pub(crate) struct SharedPtr(pub(crate) NonNull<Shared>);

// SAFETY: `Shared` is Send and Sync.
unsafe impl Send for SharedPtr {}
// SAFETY: as for Send.
unsafe impl Sync for SharedPtr {}

impl Runtime {
    /// A builder with the default settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    pub fn shared(&self) -> &Shared {
        // SAFETY: it lives at least until this runtime has been shut down.
        unsafe { self.shared.0.as_ref() }
    }

    /// Spawns a fiber on this runtime; see [`daiko::spawn`](crate::spawn).
    ///
    /// # Panics
    ///
    /// If there is no memory for one more fiber; [`spawn_with`](Self::spawn_with) returns an
    /// error instead.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.spawn_with(Builder::new(), f) {
            Ok(handle) => handle,
            Err(error) => panic!("Runtime::spawn: {error}"),
        }
    }

    /// Spawns a fiber as `builder` says on this runtime.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
    #[track_caller]
    pub fn spawn_with<F, T>(&self, builder: Builder, f: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let here = worker::current().filter(|worker| worker.is_of(self.shared()));
        builder.spawn_in(self.shared(), here, f)
    }

    /// Spawns a fiber as `builder` says on this runtime, which runs `f` at least once: see
    /// [`Builder::spawn_at_least_once`].
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
    #[track_caller]
    pub fn spawn_at_least_once<F, T>(
        &self,
        builder: Builder,
        f: F,
    ) -> Result<JoinHandle<T>, SpawnError>
    where
        F: Fn() -> T + Send + 'static,
        T: Send + 'static,
    {
        let _call = process::call();
        let here = worker::current().filter(|worker| worker.is_of(self.shared()));
        builder.spawn_anew_in(self.shared(), here, f)
    }

    /// Runs `f` in a fiber of this runtime and waits for its end: the calling thread blocks, or
    /// suspends if it is a fiber.
    ///
    /// # Panics
    ///
    /// If `f` panics, with its payload.
    #[track_caller]
    pub fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        default::join_main(self.spawn(f))
    }

    /// Runs `f`, in which fibers of this runtime can be spawned that borrow from outside, and waits
    /// for their end; see [`daiko::scope`](crate::scope). `f` itself runs on the calling thread.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// let runtime = daiko::Runtime::builder().workers(1).build().unwrap();
    /// let mut numbers = [1, 2, 3];
    /// runtime.scope(|s| {
    ///     for number in &mut numbers {
    ///         s.spawn(|| *number *= 2);
    ///     }
    /// });
    /// assert_eq!(numbers, [2, 4, 6]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`daiko::scope`](crate::scope).
    #[track_caller]
    pub fn scope<'env, F, T>(&self, f: F) -> T
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    {
        fiber::in_runtime(self.shared(), f)
    }

    /// How many workers fibers are placed on.
    pub fn workers(&self) -> usize {
        self.shared().worker_count()
    }

    /// What each worker has done so far; the spares come behind the others.
    pub fn counters(&self) -> Vec<WorkerCounters> {
        self.shared().all_workers().iter().map(|worker| worker.counters.read()).collect()
    }

    /// The preset in force.
    pub fn preset(&self) -> Preset {
        self.shared().governor.preset()
    }

    /// Changes how long agents without work poll before they sleep. It takes effect at once.
    pub fn set_preset(&self, preset: Preset) {
        let _call = process::call();
        self.shared().governor.set_preset(preset);
        self.shared().unpark_all();
    }

    /// Lets at most `agents` agents poll at a time. It takes effect at once.
    pub fn set_max_agents(&self, agents: usize) {
        let _call = process::call();
        self.shared().governor.set_max_agents(u32::try_from(agents).unwrap_or(u32::MAX));
        self.shared().unpark_all();
    }
}
