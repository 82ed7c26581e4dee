//! The runtime that the contexts of homes are lent to.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use daiko_rt::Runtime;
use daiko_rt::deadlock::OwnSearch;
use daiko_rt::runtime::RuntimeInner;
use daiko_sys::generation::Generation;

use crate::dispatch;
use crate::mask::{self, HeldSignals};

/// The variable that sets the number of workers.
const WORKERS: &str = "DAIKO_WORKERS";
/// Spare workers behind each worker, at most. They are made when they are needed.
const SPARES: usize = 1023;

/// The runtime of the process that has started it: a forked child starts another one.
static STARTED: Mutex<Option<(Generation, Option<&'static Runtime>)>> = Mutex::new(None);

/// The search for deadlocks, if they shall be reported.
static SEARCH: OnceLock<OwnSearch> = OnceLock::new();

/// Lets the monitor look for deadlocks: before there is a runtime.
pub(crate) fn search_by(search: OwnSearch) {
    let _ = SEARCH.set(search);
}

/// Keeps all other threads from starting a runtime.
pub(crate) fn keep(_: &HeldSignals) -> impl Drop + use<> {
    locked()
}

fn locked() -> MutexGuard<'static, Option<(Generation, Option<&'static Runtime>)>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the runtime of this process, which is started at the first call and never shut down.
/// `None`: it cannot be started; the reason has been told.
pub(crate) fn get() -> Option<&'static RuntimeInner> {
    let current = Generation::current().ok()?;
    // A handler may fork.
    let _signals = HeldSignals::hold();
    let mut started = locked();
    let known = started.filter(|(of, _)| *of == current);
    let (_, runtime) = *match known {
        Some(known) => started.insert(known),
        None => started.insert((current, start())),
    };
    // SAFETY: the references of `client` are used by the caller's thread only.
    runtime.map(|runtime| unsafe { runtime.inner() })
}

fn start() -> Option<&'static Runtime> {
    match build() {
        Ok(runtime) => Some(Box::leak(Box::new(runtime))),
        Err(reason) => {
            eprintln!("daiko run: {reason}; threads are native");
            None
        }
    }
}

fn build() -> Result<Runtime, String> {
    let mut builder = Runtime::builder();
    if let Some(workers) = std::env::var_os(WORKERS) {
        let number = workers.to_str().and_then(|workers| workers.parse().ok());
        let Some(number @ 1..) = number else {
            return Err(format!("{WORKERS} is {workers:?}; set it to a number from 1 on"));
        };
        builder = builder.workers(number);
    }
    // For calls that block without asking, and for threads that spin for each other.
    builder = builder.spares(SPARES).own_search(SEARCH.get().copied());
    if dispatch::is_on() {
        builder = builder.on_worker_start(dispatch::begin_thread);
    }
    // Threads of the runtime handle no signal of the program.
    let built = mask::with_signals_blocked(|| builder.build());
    // Its handler is there once a thread was started.
    daiko_home::identity::wrap_handler();
    // The caller is the first thread of the program, or of a forked child.
    dispatch::begin_thread();
    built.map_err(|error| error.to_string())
}
