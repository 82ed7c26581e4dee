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
//! - [Kinds of fibers, `no_suspend`](guide::placement): where fibers run, and their thread-locals
//! - [Fork and join](guide::fork_join): work divided among the workers, and rayon beside fibers
//! - [Blocking calls](guide::blocking): call by call, which may block, and how the runtime reacts
//! - [Futures](guide::futures): async libraries in fibers, and fibers that tasks await
//! - [Sanitizers, valgrind](guide::sanitizers): searches for faults of memory, and for races
//!
//! # Kinds of fibers
//!
//! A fiber has thread-local storage of its own, so it is a thread for every library: values of
//! `thread_local!`, `errno`, spans of a tracing library, the count of panics are the fiber's. It
//! shares its kernel thread with other fibers, though:
//!
//! - A call that blocks the kernel thread blocks the worker. [`blocking`](blocking()) keeps such
//!   calls away from it. A lock of `std` that is held over a suspension blocks the worker when a
//!   neighbour asks for it; [`RuntimeBuilder::on_stuck`] is told the blocked fiber, and the fibers
//!   that may hold the lock. The locks of [`sync`] suspend instead.
//! - The things that the kernel keeps for a thread are the worker's: its id, its signal mask, its
//!   CPU affinity. Threads and processes that a fiber starts inherit the affinity: that of the
//!   process, unless [`RuntimeBuilder::bind`] or [`RuntimeBuilder::cpus`] narrows it.
//!
//! [`Builder::migratable`] lets a fiber go on on any worker. [`Builder::borrowed`], which is
//! `unsafe`, lets it use the thread-locals of its worker: the fastest kind. The [guide to
//! placement](guide::placement) compares the kinds. [`fiber_local!`] declares values of a fiber of
//! any kind.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod agent;
mod atomic;
mod blocking;
mod caller;
pub mod cancel;
#[cfg(test)]
#[path = "../../../tests/child.rs"]
mod child;
#[cfg(test)]
mod deadlock_tests;
pub mod fs;
#[cfg(feature = "tokio")]
pub mod future;
#[cfg(doc)]
pub mod guide;
mod local;
pub mod net;
pub mod process;
#[doc(hidden)]
pub mod select;
pub mod shm;
mod sources;
pub mod sync;
pub mod time;
pub mod watch;

pub use blocking::blocking;
pub use daiko_rt::{
    Awaited, BuildError, Builder, Cancelled, Class, Deadlock, Fiber, FiberGroup, Holder, JoinError,
    JoinFuture, JoinHandle, Placement, Polling, Preset, RefusedCall, Runtime, RuntimeBuilder,
    Scope, ScopedJoinHandle, ShutdownReport, SpawnError, SpinReason, StackError, Stuck,
    WaitingFiber, WorkerCounters, block_on, current, default_runtime, dump, join, no_suspend,
    on_pooled_stack, panicking, park, park_timeout, run, scope, set_class, shared, spawn,
    spawn_future, try_current, yield_now,
};
pub use local::{AccessError, FiberLocal};
pub use time::sleep;
