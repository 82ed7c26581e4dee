//! Daiko for C and C++: the functions of `daiko.h`. The comments there are their
//! contract.
//!
//! A function checks its arguments, calls the Rust function of the same purpose, and returns its
//! end as a number. Nothing unwinds into C: a cancel unwinds the frames of the Rust function, which
//! take the wait back, up to the catch in `answer`.

mod answer;
mod attributes;
mod barrier;
mod blocking;
mod channel;
mod condvar;
mod deadline;
mod event;
mod fiber;
mod io;
mod key;
mod life;
mod mutex;
mod once;
mod park;
mod pointer;
mod poller;
mod rwlock;
mod semaphore;
mod shared;
mod watch;
