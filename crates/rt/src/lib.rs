//! The runtime of Daiko: fibers, the workers that run them, and the agents that poll on their
//! behalf.
//!
//! Programs use the crate `daiko`, which re-exports the public items and adds locks, channels,
//! time, sockets and more. This crate knows none of these: they wait by [`wait`] and [`worker`],
//! and register a [`worker::Source`] for each thing that agents shall poll for them. Every item
//! that is hidden here may change in any version.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod atomic;
#[doc(hidden)]
pub mod call;
#[doc(hidden)]
pub mod client;
mod deadline;
#[doc(hidden)]
pub mod deadlock;
mod dump;
#[doc(hidden)]
pub mod fiber;
mod future;
#[doc(hidden)]
pub mod inspect;
#[doc(hidden)]
pub mod jobs;
mod monitor;
#[doc(hidden)]
pub mod notes;
mod overflow;
#[doc(hidden)]
pub mod placement;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod runtime;
#[doc(hidden)]
pub mod wait;
#[doc(hidden)]
pub mod worker;

pub use daiko_context::stack::StackError;
pub use deadline::{Deadline, TimedOut};
pub use deadlock::{Awaited, Deadlock, Holder, WaitingFiber};
pub use dump::dump;
pub use fiber::{
    Builder, Cancelled, Fiber, JoinError, JoinFuture, JoinHandle, Scope, ScopedJoinHandle,
    SpawnError, current, join, no_suspend, on_pooled_stack, panicking, park_timeout, scope, spawn,
    spawn_future, try_current,
};
pub use future::block_on;
pub use monitor::{FiberGroup, Stuck};
pub use placement::{Class, Placement, set_class};
pub use runtime::{
    BuildError, Polling, Preset, RefusedCall, Runtime, RuntimeBuilder, Selector, ShutdownReport,
    SpinReason, default_runtime, run,
};
pub use worker::WorkerCounters;
pub use worker::suspend::{park, yield_now};
