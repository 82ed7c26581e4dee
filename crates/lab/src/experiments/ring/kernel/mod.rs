//! Rings of kernel threads, one file per mechanism.
//!
//! A mechanism is a `Gate`: how a thread waits until its datum is there, and how
//! another wakes it. Threads, laps, limit and faults are the `harness`'s, the
//! same for all.

mod agent;
mod condvar;
mod eventfd;
mod fd;
mod futex;
pub(crate) mod harness;
mod pipe;
mod polling;
mod rtsignal;
mod semaphore;
mod signal;

use self::harness::{Buffer, Threads};
use super::Method;

/// All methods of this module, in the order of tables.
pub fn methods() -> Vec<Box<dyn Method>> {
    vec![
        Box::new(Threads::<Buffer<rtsignal::RtSignal>>::new()),
        Box::new(Threads::<Buffer<polling::Polling>>::new()),
        Box::new(Threads::<Buffer<agent::Asked>>::new()),
        Box::new(Threads::<Buffer<futex::Futex>>::new()),
        Box::new(Threads::<Buffer<semaphore::Semaphore>>::new()),
        Box::new(Threads::<Buffer<condvar::Condvar>>::new()),
        Box::new(Threads::<Buffer<eventfd::EventFd>>::new()),
        Box::new(Threads::<Buffer<pipe::Pipe>>::new()),
    ]
}
