//! Fibers whose waiters are polled for by agents and resumed in nanoseconds.
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
//! - [From `std::thread` to Daiko](guide::from_std): the names, what differs, a program ported, a small server
//! - [Pinned, mover, `no_suspend`](guide::placement): where fibers run, and what they may rely on
//! - [What may block and what may not](guide::blocking): call by call, and what the runtime says and does about it
//!
//! # What the fibers of a worker share
//!
//! A fiber borrows the kernel thread of its worker. Where it suspends, another fiber goes on there, so
//! that on one thread their calls interleave, as re-entrant calls that need not nest. With `std` that
//! is sound, and it is seen:
//!
//! - What a fiber leaves in a thread-local, its neighbours find there, and may change.
//! - [`std::thread::panicking`] asks for the thread. While one fiber is suspended in a destructor that
//!   a panic runs, it is true for its neighbours on that worker.
//! - So a lock of `std` that a neighbour took before and frees meanwhile is poisoned, though whoever
//!   held it did not panic.
//! - A lock of `std` that is held over a suspension blocks the whole worker when a neighbour asks for
//!   it: for ever, as the holder cannot go on. [`RuntimeBuilder::on_stuck`] is told who asks, and who
//!   may hold it.
//!
//! [`panicking`] asks for the calling fiber, [`fiber_local!`] declares what is one fiber's alone, and
//! the locks of [`sync`] have none of this trouble.
//!
//! Elsewhere the remedy is not to suspend there: [`no_suspend`] makes sure of it. [`blocking`](blocking()) keeps
//! calls that block their thread away from the worker. Crates whose unsafe code relies on scopes in
//! thread-locals that nest, as `scoped-tls`, are unsound if a fiber suspends inside them.

pub mod agent;
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
    Awaited, BuildError, Builder, Cancelled, Class, Deadlock, Fiber, Holder, JoinError, JoinHandle,
    Placement, Preset, Runtime, RuntimeBuilder, Scope, ScopedJoinHandle, ShutdownReport,
    SpawnError, StackError, Stuck, WaitingFiber, WorkerCounters, current, default_runtime,
    no_suspend, panicking, park, park_timeout, run, scope, set_class, shared, spawn, try_current,
    yield_now,
};
pub use local::{AccessError, FiberLocal};
