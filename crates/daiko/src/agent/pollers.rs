//! Completion sources of users: any source that can be polled can be waited for.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use daiko_sys::Scope;
use daiko_sys::lock::{Lock, Tally};

use crate::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::caller;
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
    all: All,
}

/// The entries of a runtime, which may end before its registrations.
type All = Arc<Lock<Vec<Arc<PollerEntry>>>>;

struct PollerEntry {
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
    /// Returns true if the poller panicked, and so is not called any more.
    pub fn has_panicked(&self) -> bool {
        // Acquire: pairs with the Release in `PollerEntry::poll`.
        self.entry.panicked.load(Ordering::Acquire)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut call = Call::enter();
        self.all.lock().retain(|other| !Arc::ptr_eq(other, &self.entry));
        self.entry.end(&mut call);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("has_panicked", &self.has_panicked())
            .finish_non_exhaustive()
    }
}

/// Registers `poller` with the agents: those of the caller's runtime if the caller is a fiber, else
/// of the default runtime.
///
/// One agent at a time calls it, whenever an agent has no other work, and busy workers do every 61
/// suspensions. As long as a poller is registered, agents poll as for a polled watch:
/// [`Preset`](crate::Preset) says how often.
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
    let runtime = caller::runtime_of(caller::current());
    let call = Call::enter();
    let pollers = runtime.sources.get_or_add(&KEY, || Pollers::new(runtime.scope()));
    pollers.register(call.token(), Box::new(poller), runtime)
}

/// The pollers of a runtime.
pub(crate) struct Pollers {
    /// The length of `all`, so that agents of a runtime without pollers need no lock.
    count: AtomicUsize,
    all: All,
}

impl Pollers {
    fn new(scope: Scope) -> Self {
        Pollers { count: AtomicUsize::new(0), all: Arc::new(Lock::new(scope, Vec::new())) }
    }

    fn register(
        &self,
        call: InCall<'_>,
        poller: Box<dyn Poller>,
        runtime: &RuntimeInner,
    ) -> Registration {
        let entry = Arc::new(PollerEntry {
            state: Lock::new(runtime.scope(), PollerState::Idle(poller)),
            gone: Tally::new(runtime.scope()),
            panicked: AtomicBool::new(false),
        });
        let mut all = self.all.lock();
        all.push(entry.clone());
        self.count.store(all.len(), Ordering::Release);
        drop(all);
        runtime.unpark_all(call);
        Registration { entry, all: self.all.clone() }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        // Relaxed: a newly registered poller is seen at the next round.
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Calls each poller that no other agent calls at this moment; returns true if an event was
    /// found.
    fn poll_all(&self) -> bool {
        let mut found = false;
        // The pollers run without the lock, so that they may register and drop pollers. A poller
        // that is skipped because another was removed is called at the next round.
        for at in 0.. {
            let Some(entry) = self.entry(at) else { break };
            found |= entry.poll();
        }
        found
    }

    fn entry(&self, at: usize) -> Option<Arc<PollerEntry>> {
        let all = self.all.try_lock()?;
        self.count.store(all.len(), Ordering::Release);
        all.get(at).cloned()
    }
}

impl Source for Pollers {
    fn poll(&self, _: &Worker, _: Round) -> bool {
        !self.is_empty() && self.poll_all()
    }

    fn is_polled(&self) -> bool {
        !self.is_empty()
    }
}

impl PollerEntry {
    /// Calls the poller, unless another agent does; returns true if it found an event.
    fn poll(&self) -> bool {
        let Some(mut source) = self.begin() else { return false };
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
                false
            }
        }
    }

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
