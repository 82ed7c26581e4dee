//! Stops of a process for a half of each period, by a child of it.

use std::os::unix::process::parent_id;
use std::{io, process, thread};

use super::quota::PERIOD;
use crate::kit::Processes;

/// Starts a child that stops this process and lets it go on, until this process ends.
pub(super) fn of_this_process() -> io::Result<Processes> {
    let (mut child, parent) = (Processes::default(), process::id());
    child.fork(|| stop(parent))?;
    Ok(child)
}

fn stop(parent: u32) -> bool {
    while parent_id() == parent {
        for signal in [libc::SIGSTOP, libc::SIGCONT] {
            thread::sleep(PERIOD / 2);
            // SAFETY: takes plain integers. The parent has not been reaped: this process would have
            // died with it.
            unsafe { libc::kill(parent as libc::pid_t, signal) };
        }
    }
    true
}
