//! POSIX threads, their locks and their sleep, as a C program uses them: a baseline for Daiko's
//! fibers.

mod lock;
mod sleep;
mod thread;

use std::io;

use super::failure::Failure;

pub(crate) use self::lock::{Guard, PthreadCondvar, PthreadMutex, PthreadRwLock};
pub(crate) use self::sleep::{sleep_until, timespec};
pub(crate) use self::thread::{Attributes, Pthread};

/// Failure of a call that fails only because of a bug.
pub(crate) fn broken(error: io::Error) -> Failure {
    Failure::Broken(format!("a POSIX thread failed: {error}"))
}
