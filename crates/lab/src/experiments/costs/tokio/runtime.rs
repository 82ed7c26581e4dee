//! Runtimes of tokio.

use tokio::runtime::Builder;
use tokio::task::JoinError;

use crate::kit::{Failure, OrFailure};

/// A runtime on the calling thread.
pub(super) fn thread() -> Builder {
    Builder::new_current_thread()
}

/// The same runtime with timers, which are left out elsewhere because a runtime has to look after
/// them.
pub(super) fn clocked() -> Builder {
    let mut builder = thread();
    builder.enable_time();
    builder
}

/// A runtime of this many threads.
pub(super) fn workers(count: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count);
    builder
}

/// Runs `body` in a task.
pub(super) fn run<T: Send + 'static>(
    mut builder: Builder,
    body: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let runtime = builder.build().or_limit("tokio's runtime did not start")?;
    runtime.block_on(runtime.spawn(body)).map_err(broken)?
}

pub(super) fn broken(error: JoinError) -> Failure {
    Failure::Broken(format!("tokio: {error}"))
}
