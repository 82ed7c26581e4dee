//! The reasons why a fiber was not spawned.

use std::fmt;

use daiko_context::stack::StackError;
use daiko_home::ThreadLocalsError;

/// The reason why a fiber was not spawned. Nothing of it is left; the closure was dropped.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// No stack is available for the fiber.
    Stack(StackError),
    /// No thread-local storage is available for the fiber.
    ThreadLocals(ThreadLocalsError),
    /// [`Builder::on`](crate::Builder::on) named a worker that the runtime does not have.
    NoSuchWorker {
        /// The worker that was asked for.
        worker: usize,
        /// The number of workers.
        workers: usize,
    },
    /// The runtime is shutting down.
    ShuttingDown,
    /// The calling process was forked from the one that has the runtime.
    Forked,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Stack(error) => error.fmt(f),
            SpawnError::ThreadLocals(error) => error.fmt(f),
            SpawnError::NoSuchWorker { worker, workers } => write!(
                f,
                "no worker {worker}: this runtime has workers 0 to {}; ask for fewer or set \
                 RuntimeBuilder::workers",
                workers - 1
            ),
            SpawnError::ShuttingDown => {
                f.write_str("the runtime is shutting down; spawn before Runtime::shutdown")
            }
            SpawnError::Forked => f.write_str(
                "the runtime was inherited by fork, and its workers are in the parent; build \
                 another one in the child, or use the default runtime",
            ),
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpawnError::Stack(error) => Some(error),
            SpawnError::ThreadLocals(error) => Some(error),
            _ => None,
        }
    }
}
