//! Rings of kernel threads, one file per mechanism.
//!
//! A mechanism is a `Gate`: a way for a thread to wait for its datum, and for another thread to
//! wake it. Threads, laps, limit and faults belong to the `harness`, which is common to all
//! mechanisms.

mod agent;
mod condvar;
mod eventfd;
mod futex;
pub(crate) mod harness;
mod pipe;
mod polling;
mod rtsignal;
mod semaphore;
mod signal;

use self::harness::{Threads, gates};
use super::Method;

/// All methods of this module, in the order of tables.
pub fn methods() -> Vec<Box<dyn Method>> {
    vec![
        Box::new(gates::<rtsignal::RtSignal>("rtsignal")),
        Box::new(polling::method()),
        Box::new(agent::method()),
        Box::new(gates::<futex::Futex>("futex")),
        Box::new(gates::<semaphore::Semaphore>("semaphore")),
        Box::new(gates::<condvar::Condvar>("condvar")),
        Box::new(Threads { supports: eventfd::supports, ..Threads::new("eventfd", eventfd::open) }),
        Box::new(Threads { supports: pipe::supports, ..Threads::new("pipe", pipe::open) }),
    ]
}
