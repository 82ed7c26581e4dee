//! POSIX threads and their locks as a C program uses them: what Daiko's fibers
//! are measured against.

mod lock;
mod thread;

pub(crate) use self::{
    lock::{Condvar, Guard, Mutex},
    thread::{Attributes, Pthread},
};
