//! The kernel thread of a worker.

use std::io;

use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::{signal, thread};

/// Sets up a worker's kernel thread: its CPUs, unless it keeps those that it has; exact timers; a
/// stack for the overflow report.
pub(crate) fn set_up_thread(cpus: Option<&CpuSet>) -> io::Result<signal::AltStack> {
    cpus.map_or(Ok(()), cpu::bind_current)?;
    thread::set_timer_slack_ns(1)?;
    signal::AltStack::install().map_err(io::Error::other)
}
