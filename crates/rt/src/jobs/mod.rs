//! Jobs: calls that block their thread, made by other threads while the fiber is suspended.
//!
//! Threads are started when needed and kept for a while. They are those of a `pool`, which wake the
//! fibers themselves, or, where workers are processes, the `staff` of a worker's `desk` (its
//! submission queue), which the worker outlives. They belong to the runtime, because a process
//! starts the first of them before it becomes a worker.

mod desk;
mod job;
mod pool;
mod queue;
mod staff;

pub use self::job::run_elsewhere;
pub(crate) use self::queue::{BlockingPool, Desk};
