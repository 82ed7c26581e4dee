//! The primitives that the log and the sessions wait by: those of fibers.
//!
//! A program that includes the log may give it a module of other primitives with these names, as
//! those of kernel threads.

use std::time::Duration;

pub(crate) use daiko::fs::{self, File};
pub(crate) use daiko::sync::{Condvar, Event, Mutex, MutexGuard};

/// Runs a part of a session that takes much stack and seldom waits.
#[allow(dead_code, reason = "a store has no such parts")]
pub(crate) fn on_warm_stack<R>(part: impl FnOnce() -> R) -> R {
    daiko::on_pooled_stack(part)
}

/// Lets other fibers run, if the caller is one.
pub(crate) fn let_run() {
    if daiko::try_current().is_some() {
        daiko::yield_now();
    }
}

pub(crate) fn sleep(time: Duration) {
    daiko::sleep(time);
}
