//! The primitives that the log waits by: those of fibers.
//!
//! A program that includes the log may give it a module of other primitives with these names, as
//! those of kernel threads.

use std::time::Duration;

pub(crate) use daiko::fs::{self, File};
pub(crate) use daiko::sync::{Condvar, Event, Mutex, MutexGuard};

/// Lets other fibers run, if the caller is one.
pub(crate) fn let_run() {
    if daiko::try_current().is_some() {
        daiko::yield_now();
    }
}

pub(crate) fn sleep(time: Duration) {
    daiko::sleep(time);
}
