//! Daiko's protocols over atomics: run state, queues, waits, watches, placement.
//!
//! No system call, no assembly, no thread-local, and no allocation except the room of a channel and
//! the tables of `place::assign`: loom, Shuttle and property tests can check all of it. Callers
//! hand in the memory, and pass everything that needs the kernel (a sleep, a heavy barrier, a
//! clock) through a trait or as a number. Each protocol is a folder with a README: states, numbered
//! steps, the bug that they rule out and a sketch of the proof; its loom model drives the types of
//! that folder, never a copy.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod announce;
#[doc(hidden)]
pub mod atomic;
pub mod barrier;
pub mod bed;
pub mod blocking;
pub mod budget;
pub mod call;
pub mod cancel;
pub mod channel;
pub mod children;
mod circle;
pub mod claim;
pub mod condvar;
pub mod descriptors;
pub mod doorbell;
#[cfg(all(test, not(shuttle)))]
mod element;
pub mod event;
pub mod fiber;
pub mod futex;
pub mod governor;
pub mod hazard;
pub mod hosting;
pub mod idle;
pub mod injector;
pub mod inspect;
pub mod interrupt;
pub mod list;
pub mod loan;
pub mod lock;
pub mod members;
pub mod missed;
#[cfg(all(test, any(loom, shuttle)))]
mod modelled;
pub mod monitor;
pub mod mutex;
pub mod notice;
pub mod offer;
pub mod once;
pub mod place;
pub mod queue;
pub mod readiness;
pub mod robust;
#[cfg(all(test, shuttle))]
mod scenarios;
pub mod semaphore;
pub mod slab;
pub mod slots;
#[cfg(all(test, not(any(loom, shuttle))))]
mod testing;
pub mod timer;
pub mod trace;
pub mod wait;
pub mod watch;
