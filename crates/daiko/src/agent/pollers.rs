//! Completion sources of users: any source that can be polled can be waited for.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

use daiko_core::announce::LastLook;
use daiko_sys::Scope;
use daiko_sys::lock::{Lock, Tally};

use super::PollerBuilder;
use super::wake_fd::WakeFd;
use crate::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sources;
use daiko_rt::call::{Call, InCall};
use daiko_rt::client;
use daiko_rt::runtime::RuntimeInner;
use daiko_rt::worker::{self, Round, Source, SourceKey, Worker};

// SAFETY: the table of numbers has each once.
const KEY: SourceKey<Pollers> = unsafe { SourceKey::new(sources::POLLERS) };

/// A source of completions that agents poll: a queue in memory, a device, a library's progress
/// call.
pub trait Poller: Send + 'static {
    /// Looks at the source once, without blocking, and unparks the fibers that can go on;
    /// returns the number of events.
    ///
    /// It runs on an agent, so it must neither suspend nor wait. Calls that need a fiber panic
    /// here, and so do [`blocking`](crate::blocking()) and
    /// [`JoinHandle::join`](crate::JoinHandle::join), unless the fiber has ended. A poller that
    /// panics is never called again; [`Registration::has_panicked`] tells.
    fn poll(&mut self) -> usize;
}

impl<F: FnMut() -> usize + Send + 'static> Poller for F {
    fn poll(&mut self) -> usize {
        self()
    }
}

/// A registered poller; dropping it ends the polling.
///
/// Once the drop has returned, the poller is not running, and has been dropped. Only inside a
/// poller does the drop not wait: a poller that is running, there or on another agent, is dropped
/// as its `poll` returns, and not called again.
pub struct Registration {
    entry: Arc<PollerEntry>,
    list: Arc<PollerList>,
}

/// The properties of a poller, besides its worker.
pub(super) struct Properties {
    /// True if the party that it waits for has a CPU of its own.
    pub(super) peer_elsewhere: bool,
    pub(super) wake_fd: Option<WakeFd>,
}

struct PollerEntry {
    properties: Properties,
    state: Lock<PollerState>,
    /// The tally is 1 once the state is `Gone` for good.
    gone: Tally,
    panicked: AtomicBool,
}

/// State of a poller: while it runs, it is never under the lock, so that it may drop its
/// registration.
enum PollerState {
    /// No agent calls it.
    Idle(Box<dyn Poller>),
    /// An agent calls it.
    Running,
    /// An agent calls it, and drops it afterwards: its registration is gone.
    Ending,
    /// The poller has panicked, or its registration has been dropped.
    Gone,
}

impl Registration {
    /// Makes the poller active, or inactive. Any thread may call it, a fiber, and the poller
    /// itself; without a change it does nothing.
    ///
    /// While a poller is inactive, no agent calls it, and none stays awake for it: make it so while
    /// there is nothing to look for. A call that has begun goes on. Agents that sleep when it
    /// becomes active are woken, for a poller of [one worker](PollerBuilder::on) that worker's.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use daiko::agent::PollerBuilder;
    ///
    /// daiko::run(|| {
    ///     let polls = Arc::new(AtomicUsize::new(0));
    ///     let (count, fiber) = (polls.clone(), daiko::current());
    ///     let poller = PollerBuilder::new().inactive().register(move || {
    ///         fiber.unpark();
    ///         count.fetch_add(1, Ordering::Relaxed) + 1
    ///     })?;
    ///     daiko::yield_now();
    ///     assert_eq!(polls.load(Ordering::Relaxed), 0);
    ///     poller.set_active(true);
    ///     daiko::park();
    ///     assert!(polls.load(Ordering::Relaxed) > 0);
    ///     Ok::<(), daiko::agent::RegisterError>(())
    /// })
    /// .unwrap();
    /// ```
    pub fn set_active(&self, active: bool) {
        let call = Call::enter();
        if active {
            self.activate(call.token());
        } else {
            self.list.deactivate(&self.entry);
        }
    }

    pub(super) fn activate(&self, call: InCall<'_>) {
        self.list.activate(call, &self.entry);
    }

    /// Returns true if agents call the poller: it is active, and has not panicked.
    pub fn is_active(&self) -> bool {
        let _call = Call::enter();
        self.list.listed.lock().place_of(&self.entry).is_some()
    }

    /// Returns true if the poller panicked, and so is not called any more.
    pub fn has_panicked(&self) -> bool {
        // Acquire: pairs with the Release in `PollerEntry::poll`.
        self.entry.panicked.load(Ordering::Acquire)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut call = Call::enter();
        self.list.deactivate(&self.entry);
        self.entry.end(&mut call);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("is_active", &self.is_active())
            .field("has_panicked", &self.has_panicked())
            .finish_non_exhaustive()
    }
}

/// Registers `poller` with the agents: those of the caller's runtime if the caller is a fiber, else
/// of the default runtime. [`PollerBuilder`] has more choices.
///
/// One agent at a time calls it, whenever an agent has no other work, and busy workers do every 61
/// suspensions. As long as a poller is registered and [active](Registration::set_active), agents
/// poll as for a polled watch: [`Preset`](crate::Preset) says how often.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// daiko::run(|| {
///     let device = Arc::new(AtomicBool::new(false));
///     let (ready, fiber) = (device.clone(), daiko::current());
///     let registration = daiko::agent::register(move || {
///         let found = ready.swap(false, Ordering::Acquire);
///         if found {
///             fiber.unpark();
///         }
///         usize::from(found)
///     });
///     std::thread::spawn(move || device.store(true, Ordering::Release));
///     daiko::park();
///     drop(registration);
/// });
/// ```
pub fn register(poller: impl Poller) -> Registration {
    match PollerBuilder::new().register(poller) {
        Ok(registration) => registration,
        Err(error) => unreachable!("neither a worker nor a descriptor was named: {error}"),
    }
}

/// The pollers that any agent of a runtime calls, or those of one worker.
pub(super) struct Pollers(Arc<PollerList>);

/// Pollers that are called. A registration shares the list, which may outlive the runtime.
struct PollerList {
    listed: Lock<Listed>,
    /// Numbers of listed pollers, so that agents without any need no lock. Written under the lock.
    active: AtomicUsize,
    /// Those that nothing wakes an agent for.
    silent: AtomicUsize,
    /// Those with a peer that has a CPU of its own.
    elsewhere: AtomicUsize,
    /// Those with a descriptor.
    wakeable: AtomicUsize,
}

struct Listed {
    /// The active pollers. No agent calls another one.
    active: Vec<Arc<PollerEntry>>,
    /// `None` once the runtime has ended.
    agents: Option<Agents>,
}

/// The agents that poll: of a runtime, or of one of its workers.
struct Agents {
    runtime: NonNull<RuntimeInner>,
    worker: Option<usize>,
}

// SAFETY: `RuntimeInner` is Sync, and the pointer is taken away, under the lock, as it ends.
unsafe impl Send for Agents {}

impl Agents {
    /// Makes those that sleep look again.
    fn look_again(&self, call: InCall<'_>) {
        // SAFETY: `Pollers::close` takes the pointer away before the runtime is gone.
        let runtime = unsafe { self.runtime.as_ref() };
        match self.worker {
            Some(worker) => runtime.unpark_at(call, worker),
            None => runtime.unpark_all(call),
        }
    }
}

impl Listed {
    fn place_of(&self, entry: &Arc<PollerEntry>) -> Option<usize> {
        self.active.iter().position(|other| Arc::ptr_eq(other, entry))
    }
}

impl PollerList {
    fn new(scope: Scope, agents: Agents) -> Self {
        PollerList {
            listed: Lock::new(scope, Listed { active: Vec::new(), agents: Some(agents) }),
            active: AtomicUsize::new(0),
            silent: AtomicUsize::new(0),
            elsewhere: AtomicUsize::new(0),
            wakeable: AtomicUsize::new(0),
        }
    }

    fn activate(&self, call: InCall<'_>, entry: &Arc<PollerEntry>) {
        let mut listed = self.listed.lock();
        if entry.is_gone() || listed.place_of(entry).is_some() {
            return;
        }
        listed.active.push(entry.clone());
        self.count(&listed);
        if let Some(agents) = &listed.agents {
            agents.look_again(call);
        }
    }

    fn deactivate(&self, entry: &Arc<PollerEntry>) {
        let mut listed = self.listed.lock();
        let Some(place) = listed.place_of(entry) else { return };
        listed.active.remove(place);
        // Under the lock, as its worker arms it under the lock.
        if let Some(fd) = &entry.properties.wake_fd {
            fd.disarm();
        }
        self.count(&listed);
    }

    fn count(&self, listed: &Listed) {
        let count = |count: &AtomicUsize, counts: fn(&PollerEntry) -> bool| {
            let number = listed.active.iter().filter(|entry| counts(entry)).count();
            // Relaxed: a change is seen at the next round; before a sleep, the announcement of a
            // new poller orders it.
            count.store(number, Ordering::Relaxed);
        };
        count(&self.active, |_| true);
        count(&self.silent, PollerEntry::is_silent);
        count(&self.elsewhere, |entry| entry.properties.peer_elsewhere);
        count(&self.wakeable, |entry| entry.properties.wake_fd.is_some());
    }

    /// Calls each poller that no other agent calls at this moment; returns true if an event was
    /// found.
    fn poll_all(&self) -> bool {
        let mut found = false;
        // The pollers run without the lock, so that they may register and drop pollers. A poller
        // that is skipped because another was removed is called at the next round.
        for at in 0.. {
            let Some((entry, poller)) = self.begin(at) else { break };
            if let Some(poller) = poller {
                found |= entry.poll(poller, self);
            }
        }
        found
    }

    /// Returns the poller at this place of the list, for the agent to call. Under the lock, as a
    /// poller that has left the list is not called again.
    #[expect(clippy::type_complexity, reason = "an entry, and what the agent took out of it")]
    fn begin(&self, at: usize) -> Option<(Arc<PollerEntry>, Option<Box<dyn Poller>>)> {
        let listed = self.listed.try_lock()?;
        let entry = listed.active.get(at)?;
        Some((entry.clone(), entry.begin()))
    }

    /// Prepares the descriptors for a sleep of `by`, their worker; returns true if it has to look
    /// again first.
    #[cold]
    fn prepare_sleep(&self, by: &Worker) -> bool {
        let listed = self.listed.lock();
        let mut looks_again = false;
        for fd in listed.active.iter().filter_map(|entry| entry.properties.wake_fd.as_ref()) {
            looks_again |= fd.prepare_sleep(InCall::agent(by), by);
        }
        self.count(&listed);
        looks_again
    }
}

impl Pollers {
    /// Returns the pollers of the runtime, or of its worker.
    pub(super) fn of(runtime: &RuntimeInner, worker: Option<usize>) -> &Self {
        let sources = match worker {
            Some(worker) => &runtime.workers()[worker].sources,
            None => &runtime.sources,
        };
        sources.get_or_add(&KEY, || {
            let agents = Agents { runtime: NonNull::from(runtime), worker };
            Pollers(Arc::new(PollerList::new(runtime.scope(), agents)))
        })
    }

    /// Registers `poller`, which is inactive at first.
    pub(super) fn register(
        &self,
        runtime: &RuntimeInner,
        poller: Box<dyn Poller>,
        properties: Properties,
    ) -> Registration {
        let entry = Arc::new(PollerEntry {
            properties,
            state: Lock::new(runtime.scope(), PollerState::Idle(poller)),
            gone: Tally::new(runtime.scope()),
            panicked: AtomicBool::new(false),
        });
        Registration { entry, list: self.0.clone() }
    }
}

impl Source for Pollers {
    fn poll(&self, _: &Worker, _: Round) -> bool {
        self.0.active.load(Ordering::Relaxed) > 0 && self.0.poll_all()
    }

    fn is_polled(&self) -> bool {
        self.0.silent.load(Ordering::Relaxed) > 0
    }

    /// Returns true if there is an active poller, also with a descriptor: a worker that is awake
    /// looks at no descriptor.
    fn is_awaited(&self) -> bool {
        self.0.active.load(Ordering::Relaxed) > 0
    }

    fn is_pending(&self, by: &Worker, _: &LastLook) -> bool {
        self.0.wakeable.load(Ordering::Relaxed) > 0 && self.0.prepare_sleep(by)
    }

    fn has_peer_elsewhere(&self) -> bool {
        self.0.elsewhere.load(Ordering::Relaxed) > 0
    }

    /// Forgets the runtime. The pollers stay until their registrations are dropped.
    fn close(&self, _: InCall<'_>) {
        self.0.listed.lock().agents = None;
    }
}

impl PollerEntry {
    /// Returns true if no event of it wakes an agent that sleeps.
    fn is_silent(&self) -> bool {
        !self.properties.wake_fd.as_ref().is_some_and(WakeFd::ends_sleeps)
    }

    fn is_gone(&self) -> bool {
        matches!(*self.state.lock(), PollerState::Gone)
    }

    /// Calls `source`, the poller that was taken out of this entry; returns true if it found an
    /// event.
    fn poll(self: &Arc<Self>, mut source: Box<dyn Poller>, list: &PollerList) -> bool {
        let found =
            client::without_fiber(|| panic::catch_unwind(AssertUnwindSafe(|| source.poll())));
        match found {
            Ok(found) => {
                self.put_back(source);
                found > 0
            }
            Err(payload) => {
                // The agent has no caller to pass a panic on to.
                std::mem::forget(payload);
                self.bury(source);
                // Release: pairs with the Acquire in `has_panicked`.
                self.panicked.store(true, Ordering::Release);
                list.deactivate(self);
                false
            }
        }
    }

    /// Takes the poller out, unless another agent calls it.
    fn begin(&self) -> Option<Box<dyn Poller>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, PollerState::Running) {
            PollerState::Idle(source) => Some(source),
            other => {
                *state = other;
                None
            }
        }
    }

    fn put_back(&self, source: Box<dyn Poller>) {
        let mut state = self.state.lock();
        if matches!(*state, PollerState::Running) {
            *state = PollerState::Idle(source);
            return;
        }
        drop(state);
        self.bury(source);
    }

    /// Drops a poller that has run for the last time.
    fn bury(&self, source: Box<dyn Poller>) {
        // A panic of the drop has no caller to go to, either.
        let dropping = || panic::catch_unwind(AssertUnwindSafe(|| drop(source)));
        client::without_fiber(dropping).unwrap_or_else(std::mem::forget);
        *self.state.lock() = PollerState::Gone;
        self.gone.add();
    }

    /// Ends the poller, as its registration is dropped. The poller is dropped now or, if it runs,
    /// by the agent that runs it.
    fn end(&self, call: &mut Call) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, PollerState::Gone) {
            PollerState::Idle(source) => {
                drop(state);
                call.user_code(|| drop(source));
            }
            PollerState::Running => {
                *state = PollerState::Ending;
                drop(state);
                // A poller must not wait for itself, nor for another poller that may wait for it.
                if !worker::is_agent() {
                    self.gone.wait(1, None);
                }
            }
            PollerState::Ending | PollerState::Gone => {}
        }
    }
}
