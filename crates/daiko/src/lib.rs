//! Fibers whose waiters are polled for by agents and resumed in nanoseconds.

pub mod agent;
mod blocking;
mod fiber;
mod monitor;
mod overflow;
mod runtime;
pub mod watch;
mod worker;

pub use blocking::blocking;
pub use daiko_context::stack::StackError;
pub use fiber::{
    Builder, Cancelled, Fiber, JoinError, JoinHandle, SpawnError, current, no_suspend, park, spawn,
    try_current, yield_now,
};
pub use monitor::Stuck;
pub use runtime::{
    BuildError, Preset, Runtime, RuntimeBuilder, ShutdownReport, default_runtime, run,
};
pub use worker::WorkerCounters;
