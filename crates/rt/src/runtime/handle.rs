//! The handle of a runtime.

use daiko_core::governor::Preset;

use super::builder::RuntimeBuilder;
use super::default;
use super::polling::Polling;
use super::shared::{RuntimeInner, SharedPtr};
use crate::call::Call;
use crate::fiber::{self, Builder, JoinHandle, Scope, SpawnError};
use crate::process::worker_processes::WorkerProcesses;
use crate::worker::{self, WorkerCounters};

/// A set of workers that run fibers, with their memory and threads.
///
/// Most programs use the default runtime, by [`run`](crate::run) and [`spawn`](crate::spawn).
/// Dropping a runtime ends it, as [`shutdown`](Runtime::shutdown) does. In a process that is forked
/// it has no workers: it spawns nothing there, and its drop does nothing.
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
    pub(super) shared: SharedPtr,
    pub(super) monitor: Option<std::thread::JoinHandle<()>>,
    /// The processes of its workers, if they are processes.
    pub(super) worker_processes: Option<WorkerProcesses>,
}

impl Runtime {
    /// Returns a builder with the default settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    pub(crate) fn shared(&self) -> &RuntimeInner {
        // SAFETY: it lives at least until this runtime has been shut down.
        unsafe { self.shared.0.as_ref() }
    }

    /// Returns the shared part.
    ///
    /// # Safety
    ///
    /// As for the [references](crate::client#safety) of `client`.
    #[doc(hidden)]
    pub unsafe fn inner(&self) -> &RuntimeInner {
        self.shared()
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

    /// Spawns a fiber with the properties of `builder` on this runtime.
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

    /// Spawns a fiber with the properties of `builder` on this runtime, which runs `f` at least
    /// once: see [`Builder::spawn_at_least_once`].
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
        let _call = Call::enter();
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

    /// Returns the number of workers that fibers are placed on.
    pub fn workers(&self) -> usize {
        self.shared().worker_count()
    }

    /// Returns the number of workers that are active now: no more than there are CPUs for them, by
    /// the affinity mask and the quota of the control group. If other threads take these CPUs, or
    /// with [`Preset::Power`], no more than the fibers need. The other workers stand by: fibers
    /// start on active workers only, and migratable ones go on there.
    ///
    /// Active are the first ones, by their index. A fiber that is pinned to a worker which stands
    /// by runs on the kernel thread of an active worker, or on that of its own. If it borrows
    /// thread-locals, it always runs on that of its own.
    pub fn active_workers(&self) -> usize {
        self.shared().workers().iter().filter(|worker| worker.is_active()).count()
    }

    /// Returns the counts of each worker so far; the spare workers come last.
    pub fn counters(&self) -> Vec<WorkerCounters> {
        self.shared().all_workers().iter().map(|worker| worker.counters.read()).collect()
    }

    /// Returns how agents poll now, and why.
    pub fn polling(&self) -> Polling {
        Polling::of(&self.shared().governor)
    }

    /// Returns the preset in force.
    pub fn preset(&self) -> Preset {
        self.shared().governor.preset()
    }

    /// Changes how long agents without work poll before they sleep. It takes effect at once.
    pub fn set_preset(&self, preset: Preset) {
        let call = Call::enter();
        self.shared().governor.set_preset(preset);
        self.shared().unpark_all(call.token());
    }

    /// Lets at most `agents` agents poll at a time. It takes effect at once.
    pub fn set_max_agents(&self, agents: usize) {
        let call = Call::enter();
        self.shared().governor.set_max_agents(u32::try_from(agents).unwrap_or(u32::MAX));
        self.shared().unpark_all(call.token());
    }
}
