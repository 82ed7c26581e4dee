//! The sources that agents poll for this crate: one line for each, in the order of polling.
//!
//! The runtime polls its own before these: inbox, timers, ended jobs, injector, watches; and the
//! queues of other workers behind them.

use crate::agent::pollers::Pollers;
use crate::net::Io;
use crate::shm::SegmentWaits;
use crate::watch::AreaList;
use daiko_rt::worker::{Source, SourceKey};

/// The notification areas of a worker.
pub(crate) const AREAS: SourceKey<AreaList> = key(0);
/// The descriptors of a worker. Before the waits in segments, as a worker that has both sleeps here.
pub(crate) const IO: SourceKey<Io> = key(1);
/// The waits in segments of a worker.
pub(crate) const SEGMENTS: SourceKey<SegmentWaits> = key(2);
/// The users' pollers of a runtime.
pub(crate) const POLLERS: SourceKey<Pollers> = key(3);

const fn key<S: Source + 'static>(index: u32) -> SourceKey<S> {
    // SAFETY: each number stands in the table above once.
    unsafe { SourceKey::new(index) }
}
