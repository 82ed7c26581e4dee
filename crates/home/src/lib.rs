//! Thread control blocks for contexts that are no kernel threads.
//!
//! A *block* is the memory that the C library keeps for a thread: its control block and its static
//! thread-local storage. A context that runs under a block of its own is a full thread to every
//! library: its `thread_local!` values, `errno`, locale, and keys of `pthread_key_create` are its
//! own, wherever it runs.
//!
//! [`Blocks`] builds one in memory of the caller, without a kernel thread. It relies on private
//! symbols and layouts of the GNU C library, all of which are found by [probes](abi), never by
//! version. If a probe fails, the block is that of a real thread, a *home*, which sleeps while its
//! thread pointer is lent. If that is not possible either, [`Blocks::get`] returns the reason.
//!
//! The README has the argument, and lists the parts of a thread that such a block lacks.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod abi;
pub mod action;
mod atomic;
mod block;
mod caches;
mod ending;
mod home;
pub mod identity;
mod light;
mod modules;
mod renewal;
mod stacks;
mod template;

pub use abi::Unsupported;
pub use block::{BlockKind, Blocks, ThreadPointer};
pub use light::ThreadLocalsError;
