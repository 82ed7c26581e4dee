//! Code common to all rings of kernel threads.
//!
//! | file | subject |
//! |---|---|
//! | `port` | the way of a datum into and out of a thread: [`Port`], [`Gate`] |
//! | `threads` | threads on their CPUs, from creation to join |
//! | `cpus`, `limits` | allowed CPUs of threads; the limit that forbids more threads |
//!
//! 1. All threads are created, bound, and wait.
//! 2. The conductor puts [`START`](part::START) into thread 0.
//! 3. The first lap is not measured: it brings every thread's memory in, and proves that all
//!    threads wait.
//! 4. Laps follow until thread 0 has done all of them, a thread has found a wrong datum, or the
//!    limit has passed.
//! 5. The conductor sets `halted`, then rouses every thread without a datum. A thread that has
//!    ended does not notice. A waiting thread returns, sees `halted` and ends, because a rouse
//!    happens after the flag was set. All threads are joined.

mod cpus;
mod port;
mod threads;

pub(crate) use self::port::{Agent, Buffer, Gate, Port, Turn};
pub(crate) use self::threads::{gates, ports};
pub(crate) use crate::kit::Conductor;
pub(crate) use crate::kit::ring::part;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
