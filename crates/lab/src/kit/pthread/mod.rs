//! POSIX threads, their locks and their sleep, as a C program uses them: what
//! Daiko's fibers are measured against.

mod lock;
mod sleep;
mod thread;

pub(crate) use self::{
    lock::{Condvar, Guard, Mutex},
    sleep::{sleep_until, timespec},
    thread::{Attributes, Pthread},
};
