//! The runtimes of tokio.

use tokio::runtime::Builder;
use tokio::task::JoinError;

use super::failure::{Failure, OrFailure, Skip};

/// A runtime of tokio. Both are measured, as each is the faster one for some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokioKind {
    /// The multi-threaded runtime.
    MultiThread,
    /// The runtime on the calling thread.
    CurrentThread,
}

/// Names of the methods, with their runtimes.
pub(crate) const TOKIO: [(&str, TokioKind); 2] =
    [("tokio", TokioKind::MultiThread), ("tokio-current", TokioKind::CurrentThread)];

impl TokioKind {
    /// Checks that the runtime can have so many workers.
    pub(crate) fn supports(self, workers: usize) -> Result<(), Skip> {
        match self {
            Self::CurrentThread if workers != 1 => {
                Err(Skip::new("the current_thread runtime has one worker"))
            }
            _ => Ok(()),
        }
    }

    /// A builder of the runtime, without its drivers for I/O and time.
    pub(crate) fn builder(self, workers: usize) -> Builder {
        match self {
            Self::CurrentThread => Builder::new_current_thread(),
            Self::MultiThread => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(workers);
                builder
            }
        }
    }

    /// Runs `body` in a task of a runtime with timers.
    pub(crate) fn run<T: Send + 'static>(
        self,
        workers: usize,
        body: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let runtime = self.builder(workers).enable_time().build();
        let runtime = runtime.or_limit("tokio's runtime did not start")?;
        runtime.block_on(runtime.spawn(body)).map_err(broken)?
    }
}

/// The failure of a task that panicked.
pub(crate) fn broken(error: JoinError) -> Failure {
    Failure::Broken(format!("tokio: {error}"))
}
