//! Segments: memory that unrelated processes share, and what they wait for in it.

mod event;
mod placed;
mod service;
mod wait;

pub use daiko_shm::{Bytes, Segment, SegmentError};
pub use daiko_sys::file::Reason;

pub use self::event::Event;
pub use self::service::{
    Call, CallError, Client, Draft, Reply, ServeError, Server, Service, ServiceOptions,
};

pub(crate) use self::wait::ROUND;

/// What objects are, in a segment.
mod kind {
    pub(super) const SERVICE: u32 = 1;
    pub(super) const EVENT: u32 = 2;
}
