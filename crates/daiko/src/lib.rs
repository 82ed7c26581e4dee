//! Fibers with waits that agents poll, so that they resume within nanoseconds.
//!
//! ```
//! let answer = daiko::run(|| {
//!     let half = daiko::spawn(|| 21);
//!     2 * half.join().unwrap()
//! });
//! assert_eq!(answer, 42);
//! ```
//!
//! # Guides
//!
//! - [From `std::thread` to Daiko](guide::from_std): the names, the differences, a program ported,
//!   a small server
//! - [Pinned, migratable, `no_suspend`](guide::placement): where fibers run, and their guarantees
//! - [Blocking calls](guide::blocking): call by call, which may block, and how the runtime reacts
//!
//! # State that fibers share
//!
//! A fiber borrows the kernel thread of its worker. When it suspends, another fiber runs there. So
//! the calls of fibers interleave on one thread, like re-entrant calls that need not nest. With
//! `std` that is sound, but visible:
//!
//! - A value that a fiber leaves in a thread-local is seen by its neighbours, which may change it.
//! - [`std::thread::panicking`] asks for the thread. While one fiber is suspended in a destructor
//!   that a panic runs, it is true for its neighbours on that worker.
//! - So a lock of `std` that a neighbour took before and frees meanwhile is poisoned, though its
//!   holder did not panic.
//! - A lock of `std` that is held over a suspension blocks the whole worker when a neighbour asks
//!   for it: forever, as the holder cannot go on. [`RuntimeBuilder::on_stuck`] is told the blocked
//!   fiber, and the fibers that may hold the lock.
//!
//! [`panicking`] asks for the calling fiber, [`fiber_local!`] declares values that belong to one
//! fiber, and the locks of [`sync`] have none of these problems.
//!
//! Elsewhere the remedy is not to suspend there: [`no_suspend`] makes sure of it.
//! [`blocking`](blocking()) keeps calls that block their thread away from the worker. Crates whose
//! unsafe code relies on nested scopes in thread-locals, such as `scoped-tls`, are unsound if a
//! fiber suspends inside them.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod agent;
mod atomic;
mod blocking;
pub mod cancel;
#[cfg(test)]
mod deadlock_tests;
#[cfg(doc)]
pub mod guide;
mod local;
pub mod net;
pub mod process;
pub mod shm;
mod sources;
pub mod sync;
pub mod time;
pub mod watch;

pub use blocking::blocking;
pub use daiko_rt::{
    Awaited, BuildError, Builder, Cancelled, Class, Deadlock, Fiber, FiberGroup, Holder, JoinError,
    JoinHandle, Placement, Preset, Runtime, RuntimeBuilder, Scope, ScopedJoinHandle,
    ShutdownReport, SpawnError, StackError, Stuck, WaitingFiber, WorkerCounters, current,
    default_runtime, no_suspend, panicking, park, park_timeout, run, scope, set_class, shared,
    spawn, try_current, yield_now,
};
pub use local::{AccessError, FiberLocal};
pub use time::sleep;
