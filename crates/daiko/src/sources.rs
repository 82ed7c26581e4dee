//! The numbers of the sources that agents poll for this crate and for `daiko-ipc`, in the order of
//! polling. Each number is used once: in the key beside its source.
//!
//! The runtime polls its own sources before these: inbox, timers, ended jobs, injector, watches;
//! and the queues of other workers after them.

/// The notification areas of a worker.
pub(crate) const AREAS: u32 = 0;
/// The descriptors of a worker. Before the waits in segments: a worker that has both sleeps here.
pub(crate) const IO: u32 = 1;
/// The waits in segments of a worker.
const SEGMENTS: u32 = daiko_ipc::SEGMENTS;
/// The users' pollers of a runtime.
pub(crate) const POLLERS: u32 = 3;

const _: () = assert!(AREAS < IO && IO < SEGMENTS && SEGMENTS < POLLERS, "each number once");
