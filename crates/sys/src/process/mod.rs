//! Other processes: identity, life and end.
//!
//! A [`ProcessId`] names a process. It is plain data, fits into a segment and is never reused. A
//! [`PidFd`] holds a process and never refers to another process that reuses its number.

mod children;
mod ends;
mod error;
mod fork;
mod held;
mod identity;
mod memory;
mod pidfd;
mod registers;
mod steps;
mod stopped;
mod trace;
mod usage;

pub use children::{
    CHILD_CHANGED, KILL, Signals, TERMINATE, exit, signal_child, signal_parent, wait, wait_now,
};
pub use ends::{Ends, Waited};
pub use error::ProcessError;
pub use fork::{Child, Files, Forked, clone_process, die_with_parent, is_single_threaded};
pub use held::{Held, may_run};
#[doc(hidden)]
pub use identity::parse_start;
pub use identity::{Doubt, Life, ProcessId, boot_id};
pub use memory::{ProcessMemory, read_memory, write_word};
pub use pidfd::PidFd;
pub use registers::Registers;
#[doc(hidden)]
pub use steps::{count_steps, mark};
pub use stopped::{RegisterSet, StoppedProcess};
pub use trace::{Change, Traced, await_registers, probe_tracing};
pub use usage::wait_with_usage;
