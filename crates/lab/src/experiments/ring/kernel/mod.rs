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

use self::harness::{gates, ports};
use super::{Method, Supports};
use crate::kit::files;

/// All methods of this module, in the order of tables.
pub fn methods() -> Vec<Method> {
    vec![
        gates::<rtsignal::RtSignal>("rtsignal"),
        polling::method(),
        agent::method(),
        gates::<futex::Futex>("futex"),
        gates::<semaphore::DatumSemaphore>("semaphore"),
        gates::<condvar::TurnCondvar>("condvar"),
        Method { supports: descriptors(1), ..ports("eventfd", eventfd::open, None) },
        Method { supports: descriptors(2), ..ports("pipe", pipe::open, None) },
    ]
}

/// Tests that every thread can have so many descriptors.
fn descriptors(each: usize) -> Supports {
    Box::new(move |spec| files::check_allowed(each * spec.threads))
}
