//! What all rings of kernel threads have in common.
//!
//! | file | subject |
//! |---|---|
//! | `part` | what a thread does with a datum: check, count, pass on; the clock |
//! | `conductor` | start, end and faults of a run |
//! | `port` | how a datum gets into and out of a thread: [`Port`], [`Gate`] |
//! | `threads` | threads on their CPUs, from creation to join |
//! | `cpus`, `limits` | where threads may run; which limit forbids more of them |
//!
//! 1. All threads are created, bound, and wait.
//! 2. The conductor puts [`START`](part::START) into thread 0.
//! 3. The first lap is not measured: it brings every thread's memory in, and
//!    proves that all wait.
//! 4. Laps follow until thread 0 has done them all, a thread has found a wrong
//!    datum, or the limit has passed.
//! 5. The conductor sets `halted`, then rouses every thread without a datum.
//!    Who has left already does not notice; who waits returns, sees `halted`
//!    and ends, since a rouse happens after the flag was set. All are joined.

mod cpus;
pub(crate) mod part;
mod port;
mod threads;

pub(crate) use self::port::{Agent, Buffer, Gate, Port, Turn};
pub(crate) use self::threads::{gates, ports};
pub(crate) use crate::kit::Conductor;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
