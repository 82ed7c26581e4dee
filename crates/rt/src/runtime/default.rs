//! The default runtime, for callers that name none.

use std::ptr;
use std::sync::OnceLock;

use daiko_sys::generation::Generation;

use super::{Runtime, RuntimeInner};
use crate::atomic::{AtomicPtr, Ordering};
use crate::fiber::{JoinError, JoinHandle};
use crate::worker::Worker;

/// The default runtime of one process, once it has been used. Never freed.
struct DefaultRuntime {
    of: Generation,
    runtime: OnceLock<Runtime>,
}

/// The last one that was made, by this process or by its parent.
static LAST: AtomicPtr<DefaultRuntime> = AtomicPtr::new(ptr::null_mut());

/// Returns the place of this process's default runtime. A child gets another one than its parent,
/// since the parent's is in use, or about to be started by a thread that the child does not have.
fn place() -> &'static DefaultRuntime {
    // Acquire, here and at the exchange: pairs with the Release of the exchange.
    let mut last = LAST.load(Ordering::Acquire);
    loop {
        // SAFETY: such a place is never freed.
        if let Some(last) = unsafe { last.as_ref() }
            && last.of.is_current()
        {
            return last;
        }
        let of = Generation::current()
            .unwrap_or_else(|error| panic!("daiko: the default runtime cannot start: {error}"));
        let new = Box::into_raw(Box::new(DefaultRuntime { of, runtime: OnceLock::new() }));
        match LAST.compare_exchange(last, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => last = new,
            Err(other) => {
                // SAFETY: made above, and not published.
                drop(unsafe { Box::from_raw(new) });
                last = other;
            }
        }
    }
}

/// Returns the process-wide runtime, which is started at its first use with the default settings. A
/// process that is forked has one of its own.
///
/// It is never shut down: its fibers end with the process. A program that wants other settings, or
/// an orderly end, builds a [`Runtime`] of its own.
///
/// # Panics
///
/// If it cannot be started, because a thread or memory is refused, or while a runtime has
/// [processes](crate::process) as workers.
pub fn default_runtime() -> &'static Runtime {
    assert!(
        !crate::process::is_active(),
        "daiko: no default runtime beside a runtime of worker processes; spawn by a fiber, or by Runtime::spawn"
    );
    place().runtime.get_or_init(|| match Runtime::builder().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("daiko: the default runtime cannot start: {error}"),
    })
}

/// Runs `f` in a fiber of the default runtime and waits for its end.
///
/// The calling thread blocks; a fiber suspends, and then `f` runs in that fiber's runtime.
///
/// ```
/// # use daiko_rt as daiko;
/// let answer = daiko::run(|| daiko::spawn(|| 6 * 7).join().unwrap());
/// assert_eq!(answer, 42);
/// ```
///
/// # Panics
///
/// If `f` panics, with its payload, or if the default runtime cannot be started.
#[track_caller]
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    join_main(crate::spawn(f))
}

/// Waits for the fiber that runs on behalf of the caller.
#[track_caller]
pub(super) fn join_main<T>(main: JoinHandle<T>) -> T {
    match main.join() {
        Ok(result) => result,
        Err(JoinError::Panicked(payload)) => std::panic::resume_unwind(payload),
        Err(error) => panic!("daiko::run: {error}"),
    }
}

/// Returns the runtime of the calling worker, or the default one.
#[track_caller]
#[inline]
pub(crate) fn of(here: Option<&Worker>) -> &RuntimeInner {
    here.map_or_else(|| default_runtime().shared(), Worker::runtime)
}
