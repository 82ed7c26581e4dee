//! The objects of POSIX threads, in the layouts of the C library (x86-64).
//!
//! The words that other code reads keep the meaning that the C library gives them; the waiters hang
//! in bytes that it leaves alone for objects of this kind. Objects of other kinds (process-shared,
//! robust, with priorities) are the C library's: their calls are made at home.

pub(crate) mod barrier;
pub(crate) mod cond;
pub(crate) mod layout;
pub(crate) mod mutex;
pub(crate) mod once;
pub(crate) mod rwlock;
mod scratch;
pub(crate) mod sem;
pub(crate) mod spin;
pub(crate) mod time;
