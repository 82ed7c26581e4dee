//! Spawning fibers.

use std::alloc::Layout;
use std::panic::Location;
use std::ptr::NonNull;

use daiko_context::{prepare, prepare_own};
use daiko_core::fiber::Messages;
use daiko_core::place::Class;

use super::control::Vtable;
use super::entry::{Functions, PacketBody, entry};
use super::kind::Kind;
use super::spawn_error::SpawnError;
use super::{ControlBlock, Fiber, JoinHandle};
use crate::call::{Call, InCall};
use crate::future::block_on;
use crate::runtime::{self, RuntimeInner, phase};
use crate::worker::{self, Worker};

/// Spawns a fiber: in the caller's runtime if the caller is a fiber, else in the default runtime.
///
/// The fiber starts on a worker chosen by load, and stays on it. It has thread-local storage of its
/// own, as a thread has. [`Builder`] spawns other kinds of fibers.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// let fibers: Vec<_> = (0..10).map(|i| daiko::spawn(move || i * i)).collect();
/// let sum: u32 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
/// assert_eq!(sum, 285);
/// # });
/// ```
///
/// # Panics
///
/// If there is no memory for one more fiber; [`Builder::spawn`] returns an error instead.
#[doc(alias = "go")]
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let here = worker::current();
    match Builder::new().spawn_in(runtime::of(here), here, f) {
        Ok(handle) => handle,
        Err(error) => panic!("daiko::spawn: {error}"),
    }
}

/// Spawns a fiber that polls `future` until it is ready: [`block_on`] in a fiber of its own.
///
/// The future need not be `Send` once it is polled: if an `async` block would hold a value that is
/// not, [`spawn`] a closure that calls [`block_on`]. [`Builder`] spawns other kinds of fibers in
/// that way.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// let half = daiko::spawn_future(async { 21 });
/// let answer = daiko::spawn_future(async { 2 * half.await.unwrap() });
/// assert_eq!(answer.join().unwrap(), 42);
/// # });
/// ```
///
/// # Panics
///
/// As [`spawn`].
#[track_caller]
pub fn spawn_future<F>(future: F) -> JoinHandle<F::Output>
where
    F: IntoFuture + Send + 'static,
    F::Output: Send + 'static,
{
    spawn(|| block_on(future))
}

/// The properties of a fiber to spawn, like [`std::thread::Builder`] for threads.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// let fiber = daiko::Builder::new().name("parser").stack_size(256 * 1024).on(0);
/// let handle = fiber.spawn(|| daiko::current().name().map(str::to_owned)).unwrap();
/// assert_eq!(handle.join().unwrap().as_deref(), Some("parser"));
/// # });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder spawns nothing before `spawn`"]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
    place: SpawnPlace,
    kind: Option<Kind>,
    is_foreign: bool,
    class: Class,
}

/// The worker on which a fiber starts.
#[derive(Clone, Copy, Debug, Default)]
enum SpawnPlace {
    /// The caller's worker, unless it has many more fibers than other workers.
    #[default]
    Near,
    On(usize),
    /// The worker that has the fewest fibers.
    Spread,
}

impl Builder {
    /// Describes a pinned fiber without a name, with the runtime's stack size, near its spawner.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the fiber, for reports about it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Asks for a stack of at least `bytes`, besides its guard; rounded up to a power of two, at
    /// least 16 KiB. Default: that of the [runtime](crate::RuntimeBuilder::stack_size).
    ///
    /// A program with very many fibers that do little on their stacks asks for 16 KiB. Its stacks
    /// lie closer together then, so that they share page tables: less than 0.1 KiB of them for
    /// each fiber, instead of 0.5 KiB. A runtime keeps one pool of stacks for each size; workers
    /// keep unused stacks of their own only of the runtime's size, so set that if most fibers have
    /// it.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// let spawn = |i| daiko::Builder::new().stack_size(16 << 10).spawn(move || i).unwrap();
    /// let fibers: Vec<_> = (0..1000).map(spawn).collect();
    /// let sum: i32 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
    /// assert_eq!(sum, 499_500);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// None here: `spawn` returns [`SpawnError::Stack`] if the size is above 1 GiB, or has no room
    /// for the fiber's thread-locals and 8 KiB of frames.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Starts the fiber on this worker, counted from 0.
    pub fn on(mut self, worker: usize) -> Self {
        self.place = SpawnPlace::On(worker);
        self
    }

    /// Starts the fiber on the worker that has the fewest fibers and is not
    /// [stuck](crate::RuntimeBuilder::on_stuck), rather than on the caller's. For
    /// a fiber that communicates little with its spawner and works for long, such as a fiber that
    /// serves a connection.
    ///
    /// It looks at every worker. `spawn` then mostly costs a message to another worker instead of
    /// none.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// use daiko::{Builder, Runtime};
    /// use std::sync::{Arc, Barrier};
    ///
    /// let runtime = Runtime::builder().workers(2).build().unwrap();
    /// // Each keeps its worker until the other one is there.
    /// let both = Arc::new(Barrier::new(2));
    /// let fibers = [both.clone(), both]
    ///     .map(|both| runtime.spawn_with(Builder::new().spread(), move || both.wait()).unwrap());
    /// let leads = fibers.map(|fiber| fiber.join().unwrap().is_leader());
    /// assert_ne!(leads[0], leads[1]);
    /// ```
    pub fn spread(mut self) -> Self {
        self.place = SpawnPlace::Spread;
        self
    }

    /// Sets the class of the fiber. Where two workers share a core, and are
    /// [paired](crate::RuntimeBuilder::pairing), one of them then runs fibers that stall while the
    /// other runs fibers that compute. The fiber may [change](crate::set_class) its class. Default:
    /// [`Class::Unknown`].
    ///
    /// See the guide.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// use daiko::{Builder, Class};
    ///
    /// let sum = Builder::new().class(Class::Compute).spawn(|| (1..=100).sum::<u32>()).unwrap();
    /// assert_eq!(sum.join().unwrap(), 5050);
    /// # });
    /// ```
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Keeps the fiber on the worker that starts it. It has thread-locals of its own. The default,
    /// unless [`RuntimeBuilder::migratable`](crate::RuntimeBuilder::migratable) changes it.
    ///
    /// While its worker [stands by](crate::Runtime::active_workers), other kernel threads than the
    /// worker's may run the fiber.
    ///
    /// The [guide](crate#kinds-of-fibers) has the costs and benefits of each kind.
    pub fn pinned(mut self) -> Self {
        self.kind = Some(Kind::PINNED);
        self
    }

    /// Makes the fiber migratable: after any suspension, it may go on on another worker. It has
    /// thread-locals of its own, which move with it.
    ///
    /// What the kernel keeps for a thread stays with the worker: the id that `gettid` returns, the
    /// signal mask, the CPU affinity, the priority, the CPU clock. So code that stores such a value
    /// before a suspension finds another one afterwards.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// use std::cell::Cell;
    /// thread_local!(static STEP: Cell<u32> = const { Cell::new(0) });
    ///
    /// let fiber = daiko::Builder::new().migratable().spawn(|| {
    ///     STEP.set(1);
    ///     daiko::yield_now();
    ///     STEP.get()
    /// });
    /// assert_eq!(fiber.unwrap().join().unwrap(), 1);
    /// # });
    /// ```
    pub fn migratable(mut self) -> Self {
        self.kind = Some(Kind::MIGRATABLE);
        self
    }

    /// Makes the fiber borrow the thread-locals of its worker, and stay there: the fastest kind.
    ///
    /// # Safety
    ///
    /// Other borrowed fibers of the worker, and code that the worker runs for the runtime, use the
    /// same thread-locals while this fiber is suspended. In all code that the fiber runs, also in
    /// libraries:
    ///
    /// - No initializer of a thread-local suspends. The value of a `thread_local!` that is
    ///   initialized again meanwhile is dropped, though references to it exist. An initializer
    ///   suspends as soon as it takes a lock of [`sync`](crate), writes to a channel, or connects.
    /// - No reference into a thread-local lives across a suspension, unless the value is only ever
    ///   changed through types that allow re-entrant use, such as `Cell` and `RefCell`.
    /// - No scope that is kept in a thread-local, and that unsafe code relies on, is open across a
    ///   suspension: as of `scoped-tls`, or of a guard that restores a value when it is dropped.
    pub unsafe fn borrowed(mut self) -> Self {
        self.kind = Some(Kind::BORROWED);
        self
    }

    /// Makes the fiber borrow the thread-locals of the worker that it is on, and lets it move.
    ///
    /// # Safety
    ///
    /// As for [`borrowed`](Self::borrowed). Nor may any code that the fiber runs keep a value in
    /// thread-local storage, or the address of a thread-local, across a suspension. That includes
    /// values that the compiler or a library keeps there: `errno`, the random keys of a `HashMap`
    /// under construction, a lock of `std` or `parking_lot` that is held, and every value that is
    /// not `Send` and lives across a suspension. The guards of `sync` are excepted: they belong to
    /// the fiber, not to its thread.
    pub unsafe fn borrowed_migratable(mut self) -> Self {
        self.kind = Some(Kind::BORROWED_MIGRATABLE);
        self
    }

    /// States that the fiber runs code of another language: it starts even if it was cancelled
    /// before. Its functions have to catch the unwind of a cancel, so that no frame of that code is
    /// unwound.
    #[doc(hidden)]
    pub fn foreign(mut self) -> Self {
        self.is_foreign = true;
        self
    }

    /// Spawns the fiber: in the caller's runtime if the caller is a fiber, else in the default one.
    /// [`Runtime::spawn_with`](crate::Runtime::spawn_with) names another.
    ///
    /// # Errors
    ///
    /// If there is no memory or no mapping for its stack, or no such worker, or if the runtime is
    /// shutting down or was inherited by `fork`.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let here = worker::current();
        self.spawn_in(runtime::of(here), here, f)
    }

    /// Spawns the fiber in `runtime`; `here` is the calling worker, if a worker of `runtime` calls.
    #[track_caller]
    pub fn spawn_in<F, T>(
        self,
        runtime: &RuntimeInner,
        here: Option<&Worker>,
        f: F,
    ) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let call = Call::enter();
        let call = call.token();
        let functions = &const { Functions::<F, T>::VTABLE };
        let fiber =
            self.allocate(call, runtime, here, functions, const { room::<PacketBody<F, T>>() })?;
        // SAFETY: `allocate` made room for the packet, and the functions are for it.
        unsafe { fiber.packet.get().cast().write(PacketBody::<F, T>::new(f)) };
        let handle = JoinHandle::new(Fiber::from_block(NonNull::from(fiber)));
        self.launch(call, runtime, here, fiber);
        Ok(handle)
    }

    /// Describes a pinned fiber with the thread-locals and the stack size that `model` has.
    pub(super) fn pinned_like(model: &ControlBlock, runtime: &RuntimeInner) -> Self {
        let kind = if model.is_own() { Kind::PINNED } else { Kind::BORROWED };
        let stack_size = runtime.pool.size_of(model.class_of_stack);
        Builder { kind: Some(kind), stack_size, ..Self::new() }
    }

    /// Allocates a fiber with everything except its packet, for which it has `room`. No other
    /// thread knows the fiber.
    #[track_caller]
    pub(super) fn allocate<'r>(
        &self,
        call: InCall<'_>,
        runtime: &'r RuntimeInner,
        here: Option<&Worker>,
        functions: &'static Vtable,
        room: Layout,
    ) -> Result<&'r ControlBlock, SpawnError> {
        let workers = runtime.worker_count();
        if let SpawnPlace::On(worker) = self.place
            && worker >= workers
        {
            return Err(SpawnError::NoSuchWorker { worker, workers });
        }
        if here.is_none() && !runtime.is_here() {
            return Err(SpawnError::Forked);
        }
        if runtime.phase() != phase::RUNNING {
            return Err(SpawnError::ShuttingDown);
        }
        let kind = self.kind.filter(|_| !runtime.options.processes).unwrap_or(runtime.options.kind);
        let kind = kind.with_foreign_code(self.is_foreign);
        let block = runtime.pool.take(call, runtime, here, kind, self.stack_size)?;
        // SAFETY: no other thread uses the block, which is in use from here on.
        let fiber = unsafe { block.as_ref() };
        let stack_top = fiber
            .renew(kind, self.name.as_deref(), room, Location::caller())
            .inspect_err(|_| fiber.discard(call))?;
        fiber.vtable.set(functions);
        if self.class != Class::Unknown {
            fiber.class.set(self.class);
            runtime.pairing.declare(runtime);
        }
        let argument = block.as_ptr().cast();
        if kind.is_own() {
            let pointer = runtime.pool.enter(fiber).inspect_err(|_| fiber.discard(call))?;
            // SAFETY: the stack below is this fiber's and unused; `entry` gets its block. Only
            // workers resume fibers.
            fiber.sp.set(unsafe { prepare_own(stack_top, entry, argument, pointer.addr()) });
        } else {
            // SAFETY: as above.
            fiber.sp.set(unsafe { prepare(stack_top, entry, argument) });
        }
        Ok(fiber)
    }

    /// Puts the new fiber in a place where a worker will find it. `here` is the calling worker, if
    /// a worker of `runtime` calls.
    pub(super) fn launch(
        &self,
        call: InCall<'_>,
        runtime: &RuntimeInner,
        here: Option<&Worker>,
        fiber: &ControlBlock,
    ) {
        if let Some(worker) = here {
            worker.trace_wake(fiber);
        }
        match (self.place, here) {
            (SpawnPlace::On(worker), _) => {
                runtime.send_start(call, here, worker, fiber, Messages::START);
            }
            (SpawnPlace::Spread, _)
                if runtime.worker_count() > 1
                    && let Some(least) = runtime.least_loaded(here.map_or(0, Worker::position)) =>
            {
                runtime.send_placed(call, here, least.worker, fiber);
            }
            (_, Some(worker)) => worker.enqueue_stealable(call, fiber),
            (_, None) => runtime.inject_one(call, fiber),
        }
    }
}

/// Returns the layout of a packet.
pub(super) const fn room<P>() -> Layout {
    assert!(align_of::<P>() <= 4096, "aligned to more than a page");
    Layout::new::<P>()
}
