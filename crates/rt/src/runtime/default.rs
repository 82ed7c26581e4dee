//! The default runtime, for callers that name none.

use std::sync::OnceLock;

use super::{Runtime, RuntimeInner};
use crate::fiber::{JoinError, JoinHandle};
use crate::worker::Worker;

static DEFAULT: OnceLock<Runtime> = OnceLock::new();

/// Returns the process-wide runtime, which is started at its first use with the default settings.
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
    DEFAULT.get_or_init(|| match Runtime::builder().build() {
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
