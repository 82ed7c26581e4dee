//! The settings of a runtime.

use std::fmt;
use std::time::Duration;

use daiko_core::governor::{Goals, Preset};
use daiko_sys::Scope;
use daiko_sys::arena::Arena;
use daiko_sys::memory::GuardKind;
use daiko_sys::selector;

use super::{Selector, stack_size};
use crate::deadlock::{Deadlock, DeadlockHook, OwnSearch};
use crate::fiber::Kind;
use crate::monitor::{Stuck, StuckHook};
use crate::placement::Placement;

/// The settings of a [`Runtime`](crate::Runtime).
///
/// ```
/// # use daiko_rt as daiko;
/// use daiko::{Preset, Runtime};
///
/// let runtime = Runtime::builder().workers(1).preset(Preset::Latency).build().unwrap();
/// assert_eq!(runtime.workers(), 1);
/// ```
#[must_use = "a builder starts nothing before `build`"]
pub struct RuntimeBuilder {
    pub(super) workers: Option<usize>,
    pub(super) processes: bool,
    pub(super) kind: Kind,
    pub(super) cpus: Option<Vec<usize>>,
    pub(super) bind: Option<bool>,
    pub(super) preset: Option<Preset>,
    pub(super) max_agents: Option<usize>,
    pub(super) goals: Goals,
    pub(super) any_agent: bool,
    pub(super) traced: bool,
    pub(super) stack_size: Option<usize>,
    pub(super) guard_size: usize,
    pub(super) arena: Option<Arena>,
    pub(super) guard_kind: Option<GuardKind>,
    pub(super) membarrier: bool,
    pub(super) selector: Option<selector::SelectorKind>,
    pub(super) placement: Placement,
    pub(super) steered: Option<bool>,
    pub(super) pairing: Option<bool>,
    pub(super) cores: Option<Vec<usize>>,
    pub(super) all_active: bool,
    pub(super) spares: usize,
    pub(super) on_stuck: Option<StuckHook>,
    pub(super) on_deadlock: Option<DeadlockHook>,
    pub(super) track_locks: bool,
    pub(super) dump_on_signal: bool,
    pub(super) own_search: Option<OwnSearch>,
    pub(super) on_worker_start: Option<fn()>,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        RuntimeBuilder {
            workers: None,
            processes: false,
            kind: Kind::PINNED,
            cpus: None,
            bind: None,
            preset: None,
            max_agents: None,
            goals: Goals::NONE,
            any_agent: false,
            traced: true,
            stack_size: None,
            guard_size: stack_size::GUARD,
            arena: None,
            guard_kind: None,
            membarrier: true,
            selector: None,
            placement: Placement::Default,
            steered: None,
            pairing: None,
            cores: None,
            all_active: false,
            spares: 1,
            on_stuck: None,
            on_deadlock: None,
            track_locks: false,
            dump_on_signal: false,
            own_search: None,
            on_worker_start: None,
        }
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("workers", &self.workers)
            .field("cpus", &self.cpus)
            .field("bind", &self.bind)
            .field("preset", &self.preset)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

impl RuntimeBuilder {
    /// Sets the number of workers: 1 to 512. Default: the number of CPUs allowed by the affinity
    /// mask and the cgroup's quota, rounded up.
    ///
    /// Workers without a CPU [stand by](crate::Runtime::active_workers).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Makes the workers processes: `workers` of them, 1 to 512, forked from this process by
    /// [`build`](Self::build). After any suspension, fibers go on in any process that has time for
    /// them; all are [migratable](crate::Builder::migratable). If a worker is killed, its
    /// fibers go on in the next one, after any call of this library.
    ///
    /// The program keeps its objects in a [`SharedHeap`](crate::process::SharedHeap), where all
    /// processes see them, and builds the runtime while it has only one thread. That process itself
    /// runs no fibers: it waits for them, and ends the other processes. [The
    /// module](crate::process) has an example, and lists the other differences.
    ///
    /// # Safety
    ///
    /// The code of fibers keeps these rules, in addition to those of
    /// [`Builder::migratable`](crate::Builder::migratable):
    ///
    /// 1. *Statics* belong to each process, in the state at the fork of the workers. No two
    ///    processes write to values reached from such a copy: fibers neither change nor free a
    ///    static that owns memory of the heap by then (a `Vec`, a `LazyLock` that was used, the
    ///    buffer of standard output once a line was printed). A static that is to be common to all
    ///    processes is declared by [`shared!`](crate::shared).
    /// 2. *Blocking objects and thread handles* of `std` and of C stay inside one process: no fiber
    ///    holds one, or waits for one, that another fiber uses. Those of `sync` are for all
    ///    processes. Nor do fibers, or their `blocking` calls, start threads by `std`: its list of
    ///    threads is such a static as in 1.
    /// 3. *Mappings* that are made, and libraries that are loaded, after the build are not used
    ///    across a call of this library: other processes do not have them. Memory of `malloc` is
    ///    such a mapping. Nor are locks and buffers of 1 and 2 held across a call.
    /// 4. No value that a fiber borrows lies in the frame of a thread.
    /// 5. No guard of a [shared lock](daiko_sys::lock::inherit_from_the_dead) is leaked. If a guard
    ///    or permit of `sync` is leaked, as by [`std::mem::forget`], its object is not
    ///    freed before the fiber has ended: if the fiber is lost, recovery releases the guard, and
    ///    so uses the object.
    /// 6. Values that a fiber was changing when it was [lost](crate::JoinError::WorkerDied) may be
    ///    changed by half: the value behind a poisoned lock, values guarded by atomics, values in
    ///    the closure of a fiber that begins anew. No code relies on more.
    pub unsafe fn process_workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self.processes = true;
        self
    }

    /// Sets whether worker processes are traced (by `ptrace`, from the process that forks them), so
    /// that another process can finish the interrupted operation of a killed worker. Default: yes.
    ///
    /// A debugger can attach to a worker only if they are not traced. Then, and where the kernel
    /// does not allow tracing, the program ends if a worker is killed in a call of this library or
    /// in its agent; its last message says so.
    pub fn trace_workers(mut self, traced: bool) -> Self {
        self.traced = traced;
        self
    }

    /// Makes fibers [migratable](crate::Builder::migratable) unless their spawn asks for another
    /// kind. Default: they are [pinned](crate::Builder::pinned).
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// let runtime = daiko::Runtime::builder().workers(2).migratable().build().unwrap();
    /// let fiber = runtime.spawn(|| (0..10).for_each(|_| daiko::yield_now()));
    /// fiber.join().unwrap();
    /// ```
    pub fn migratable(mut self) -> Self {
        self.kind = Kind::MIGRATABLE;
        self
    }

    /// Makes fibers [borrow](crate::Builder::borrowed) the thread-locals of their worker unless
    /// their spawn asks for another kind.
    ///
    /// # Safety
    ///
    /// All fibers that are spawned without naming their kind keep the contract of
    /// [`Builder::borrowed`](crate::Builder::borrowed).
    pub unsafe fn borrowed(mut self) -> Self {
        self.kind = Kind::BORROWED;
        self
    }

    /// Sets the CPUs on which workers run; those that are not allowed are left out. Default: all
    /// that are allowed.
    ///
    /// What fibers start, as threads and processes, runs there as well, except for the threads of
    /// `blocking`.
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cpus = Some(cpus.into_iter().collect());
        self
    }

    /// Sets whether each worker is bound to one of the [`cpus`](Self::cpus), in turn, or runs on
    /// any of them, as the kernel places it. Default: not bound.
    ///
    /// Threads, processes (by `Command` and by `fork`) and runtimes that a fiber starts inherit the
    /// CPUs of its worker. If that is bound, all of them share its one CPU, and
    /// `available_parallelism` is 1 there. Only the threads of `blocking` run on all CPUs that the
    /// thread which built the runtime could use. So bind workers if no other program needs their
    /// CPUs, and if fibers start neither threads nor processes.
    ///
    /// [`pairing`](Self::pairing) and [`Placement::Follow`] need to know the CPU of each worker,
    /// and so bind the workers.
    pub fn bind(mut self, bind: bool) -> Self {
        self.bind = Some(bind);
        self
    }

    /// Sets how long agents poll before they sleep. Default: [`Preset::Balanced`], under a CPU
    /// quota [`Preset::Power`].
    pub fn preset(mut self, preset: Preset) -> Self {
        self.preset = Some(preset);
        self
    }

    /// Makes agents poll as much as it takes that 99 of 100 events are seen within `latency`: a
    /// wake by another thread, a changed word. Default: the [`preset`](Self::preset) alone decides.
    ///
    /// The runtime measures how long a sleeping worker takes to run after its wake. If that is
    /// short enough, agents do not spin; else they spin as long as it takes until 99 of 100 events
    /// have come, by the times of the last 100 ms. Silent words are looked at every half of
    /// `latency`. Agents spin for less where they have no CPU of their own, or
    /// [`cpu_budget`](Self::cpu_budget) asks for it. [`Runtime::polling`](crate::Runtime::polling)
    /// tells what they do, and why. [The figure][trade] shows what a target costs, beside the
    /// presets.
    ///
    /// [trade]: https://github.com/daiko-rs/daiko/blob/main/README.md#cost-in-cpu-time-and-memory
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// use daiko::Runtime;
    /// use std::time::Duration;
    ///
    /// let builder = Runtime::builder().latency_target(Duration::from_micros(20)).cpu_budget(0.2);
    /// let runtime = builder.workers(1).build().unwrap();
    /// let polling = runtime.polling();
    /// println!("agents spin for {:?}: {:?}", polling.spin, polling.reason);
    /// ```
    pub fn latency_target(mut self, latency: Duration) -> Self {
        self.goals.latency = Some(latency);
        self
    }

    /// Makes agents spin so that they use at most so many CPUs for it, on average over the last
    /// 100 ms: 0.1 is a tenth of one. As long as that allows, or as
    /// [`latency_target`](Self::latency_target) needs. Looks at silent words take as much at most.
    /// Default: the [`preset`](Self::preset) alone decides. [The figure][trade] shows what latency
    /// a budget buys, beside the presets.
    ///
    /// [trade]: https://github.com/daiko-rs/daiko/blob/main/README.md#cost-in-cpu-time-and-memory
    pub fn cpu_budget(mut self, cpus: f64) -> Self {
        self.goals.cpu = Some(cpus);
        self
    }

    /// Sets how many agents may poll at a time. Default: the number of workers.
    ///
    /// An agent that polls for a party with a CPU of its own (a peer process, a waiter's statement
    /// `peer_elsewhere`) is not held back by this limit, although it counts while there is room.
    pub fn max_agents(mut self, agents: usize) -> Self {
        self.max_agents = Some(agents);
        self
    }

    /// Sets whether an agent may also look at the watches of other workers, and resume migratable
    /// fibers that it finds there itself. Default: no.
    pub fn any_agent(mut self, any: bool) -> Self {
        self.any_agent = any;
        self
    }

    /// Sets the bytes of a fiber's stack, without its guard; rounded up to a power of two, and to
    /// 16 KiB, the size for a million fibers.
    /// [`Builder::stack_size`](crate::Builder::stack_size) sets those of one fiber.
    ///
    /// Default: the environment variable `DAIKO_STACK_SIZE`, a number of bytes, or of units as in
    /// `512K` or `512KiB`, `1M` or `1MiB`. If that is not set: 256 KiB; in builds with debug
    /// assertions, whose frames are larger, 1 MiB. The variable is for runtimes that set no size,
    /// the [default runtime](crate::default_runtime()) among them.
    ///
    /// Memory is committed page by page, as it is used. Page tables take another 2 KiB for each MiB
    /// of a stack's size.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets the bytes of the guard at the end of each stack, to which a page is added if that keeps
    /// the tops of stacks apart in the caches.
    ///
    /// Default: 28 KiB; in builds with debug assertions 64 KiB. Rust touches every page of a large
    /// frame, so that a page would be enough. C code that is compiled without
    /// `-fstack-clash-protection` does not: a frame that is larger than the guard may reach over
    /// it, into the memory of another fiber. For such code set 64 KiB, or more; each KiB takes 2
    /// bytes of page tables for each fiber.
    pub fn guard_size(mut self, bytes: usize) -> Self {
        self.guard_size = bytes;
        self
    }

    /// Sets the hook for a worker that has been stuck in one fiber, without a suspension, for
    /// several milliseconds. The hook runs on a thread of the runtime's own and must not block.
    ///
    /// Without a hook, builds with debug assertions write the report to standard error, once, after
    /// a second.
    pub fn on_stuck(mut self, hook: impl Fn(&Stuck) + Send + Sync + 'static) -> Self {
        self.on_stuck = Some(Box::new(hook));
        self
    }

    /// Writes a [dump](crate::dump) of all fibers to standard error at each SIGQUIT, which then
    /// does not end the process. The environment variable `DAIKO_DUMP=1` does the same for a
    /// program as it is.
    ///
    /// A thread of its own writes it, so it comes even if all workers are stuck. Nothing stops. It
    /// stays so for the process. The build fails if the program has a handler for SIGQUIT.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// let runtime = daiko::Runtime::builder().workers(1).dump_on_signal(true).build()?;
    /// # drop(runtime);
    /// # Ok::<(), daiko::BuildError>(())
    /// ```
    pub fn dump_on_signal(mut self, dumps: bool) -> Self {
        self.dump_on_signal = dumps;
        self
    }

    /// Notes the holder of each mutex, of each lock held for writing and of each one-time
    /// initialization, for debuggers: `daiko deadlock` names them then. Builds with debug
    /// assertions, and runtimes with [`on_deadlock`](Self::on_deadlock), always do so. The
    /// environment variable `DAIKO_TRACK_LOCKS=1` does the same for a program as it is.
    ///
    /// It holds for the process, from the start of this runtime on, and makes each lock and unlock
    /// slower. Locks taken before are not known.
    ///
    /// Not with worker processes: the build fails.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// let runtime = daiko::Runtime::builder().workers(1).track_locks(true).build()?;
    /// # drop(runtime);
    /// # Ok::<(), daiko::BuildError>(())
    /// ```
    pub fn track_locks(mut self, tracks: bool) -> Self {
        self.track_locks = tracks;
        self
    }

    /// Sets the hook for deadlocks: fibers wait for each other in a cycle, or all wait for events
    /// that no thread is left to bring. The report lists each waiter, its target and the holder.
    ///
    /// The runtime is searched while it is idle: no worker runs a fiber, and no timer, polled watch
    /// or poller could make one runnable. A cycle is always reported if each fiber waits for the
    /// next to free a mutex or a lock held for writing, to complete a one-time initialization, or
    /// to end. Other waits are reported only if nothing in the process could still end one: all its
    /// other threads are blocked until another wakes them, and no signal has a handler. A wait that
    /// another process, a device or a timer could end is not taken for lost. Each standstill is
    /// reported once, and another one after a fiber has run.
    ///
    /// With the first such runtime the process begins to track the holders of locks, as builds with
    /// debug assertions always do, which makes each lock and unlock slower. Locks taken before are
    /// not known. Nor are the readers of a read-write lock and the holders of permits of a
    /// semaphore, which any fiber may give back. Without a hook, builds with debug assertions write
    /// the report to standard error, and other builds do not look for deadlocks.
    ///
    /// The hook runs on a thread of the runtime's own and must not block.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// use daiko::Runtime;
    /// use std::sync::mpsc;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let hook = move |deadlock: &daiko::Deadlock| _ = tell.send(deadlock.clone());
    /// let runtime = Runtime::builder().workers(1).on_deadlock(hook).build().unwrap();
    /// let parked = runtime.spawn(daiko::park);
    /// let deadlock = told.recv().unwrap();
    /// assert_eq!(deadlock.fibers[0].waits_for.kind, "park");
    /// parked.cancel();
    /// ```
    pub fn on_deadlock(mut self, hook: impl Fn(&Deadlock) + Send + Sync + 'static) -> Self {
        self.on_deadlock = Some(Box::new(hook));
        self
    }

    /// Sets the search for deadlocks of a client that knows its waiters itself.
    #[doc(hidden)]
    pub fn own_search(mut self, search: Option<OwnSearch>) -> Self {
        self.own_search = search;
        self
    }

    /// Sets a function that each worker's thread calls before it runs fibers.
    #[doc(hidden)]
    pub fn on_worker_start(mut self, hook: fn()) -> Self {
        self.on_worker_start = Some(hook);
        self
    }

    /// Sets the source of memory for the runtime's objects: for tests.
    #[doc(hidden)]
    pub fn arena(mut self, arena: Arena) -> Self {
        self.arena = Some(arena);
        self
    }

    /// Forces the fallback for guards, and for `membarrier`: for tests and measurements.
    #[doc(hidden)]
    pub fn fallbacks(mut self, guard_kind: Option<GuardKind>, membarrier: bool) -> Self {
        self.guard_kind = guard_kind;
        self.membarrier = membarrier;
        self
    }

    /// Makes [`Placement::Follow`] assume that packets are steered, or that they are not: for
    /// tests.
    #[doc(hidden)]
    pub fn steered(mut self, steered: bool) -> Self {
        self.steered = Some(steered);
        self
    }

    /// Sets how workers ask the kernel for changed descriptors. Default: by io_uring where it is
    /// granted, else by epoll.
    pub fn selector(self, selector: Selector) -> Self {
        self.selector_kind(selector.into())
    }

    /// Sets the [`selector`](Self::selector), including kinds that exist only for tests and
    /// measurements.
    #[doc(hidden)]
    pub fn selector_kind(mut self, kind: selector::SelectorKind) -> Self {
        self.selector = Some(kind);
        self
    }

    /// Sets where [migratable fibers](crate::Builder::migratable) go on after a wait for a
    /// socket. [`Placement::Follow`] needs to know the CPU of each worker, and so
    /// [binds](Self::bind) the workers.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// use daiko::{Placement, Runtime};
    ///
    /// let runtime = Runtime::builder().workers(1).placement(Placement::Follow).build().unwrap();
    /// ```
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets whether workers on hardware threads of one core take account of each other,
    /// once a fiber has a [class](crate::Builder::class). One then runs fibers that stall while the
    /// other runs fibers that compute, and an agent leaves the core to a sibling that computes.
    /// Default: yes if workers are bound.
    ///
    /// This needs to know the CPU of each worker: `pairing(true)` [binds](Self::bind) the workers.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// use daiko::{Preset, Runtime};
    ///
    /// // Here agents poll for ever, even if a sibling computes.
    /// let builder = Runtime::builder().workers(1).preset(Preset::Latency);
    /// let runtime = builder.bind(true).pairing(false).build().unwrap();
    /// ```
    pub fn pairing(mut self, pairing: bool) -> Self {
        self.pairing = Some(pairing);
        self
    }

    /// Sets the core of each worker, in turn, by any numbers, and makes
    /// [all active](Self::all_active): for tests.
    #[doc(hidden)]
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = Some(cores.into_iter().collect());
        self.all_active()
    }

    /// Makes no worker stand by, though CPUs or work may be scarce: for tests.
    #[doc(hidden)]
    pub fn all_active(mut self) -> Self {
        self.all_active = true;
        self
    }

    /// Sets the number of spare workers behind each worker: each takes over where the one before it
    /// is stuck as well. They are made when they are needed; all workers together are
    /// [`daiko_core::idle::MAX_WORKERS`] at most. Default: 1. For code that blocks its kernel
    /// thread without asking.
    #[doc(hidden)]
    pub fn spares(mut self, spares: usize) -> Self {
        self.spares = spares.max(1);
        self
    }

    /// Returns true if the workers shall be processes.
    pub(crate) fn has_processes(&self) -> bool {
        self.processes
    }

    /// Returns a setting that is not possible with processes, if there is one.
    pub(crate) fn not_for_processes(&self) -> Option<&'static str> {
        let private = |arena: &Arena| arena.scope() == Scope::Private;
        match () {
            () if self.on_deadlock.is_some() => Some("on_deadlock"),
            () if self.track_locks => Some("track_locks"),
            // A ring belongs to its thread, and processes come and go.
            () if self.selector.is_some_and(|kind| kind != selector::SelectorKind::Epoll) => {
                Some("selector")
            }
            () if self.arena.as_ref().is_some_and(private) => Some("arena"),
            () => None,
        }
    }
}
