//! Jobs: calls that block their thread, made by other threads while the fiber is suspended.
//!
//! Threads are started when needed and kept for a while. They are those of a `pool`, which wake the
//! fibers themselves, or, where workers are processes, the `threads` of a worker's `submissions`
//! (its submission queue), which the worker outlives. They belong to the runtime, because a process
//! starts the first of them before it becomes a worker.

mod job;
mod pool;
mod queue;
mod submissions;
mod threads;

pub use self::job::run_elsewhere;
pub(crate) use self::queue::{BlockingPool, SubmissionQueue};
