//! The kernel thread of a worker.

use std::io;

use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::{signal, thread};

/// Sets up a worker's kernel thread: its CPUs, exact timers, a stack for the overflow report.
pub(crate) fn set_up_thread(cpus: &CpuSet) -> io::Result<signal::AltStack> {
    cpu::bind_current(cpus)?;
    thread::set_timer_slack_ns(1)?;
    signal::AltStack::install().map_err(io::Error::other)
}
