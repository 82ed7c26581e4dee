//! Segments: memory that unrelated processes share, and what they wait for in it.

mod channel;
mod event;
mod mutex;
mod placed;
mod poison;
mod rwlock;
mod semaphore;
mod service;
mod wait;
mod word;

pub use daiko_shm::{Bytes, Segment, SegmentError};
pub use daiko_sys::file::Reason;

pub use self::channel::{
    Channel, ChannelOptions, ConnectError, Iter, Receiver, RecvError, SendError, Sender,
};
pub use self::event::Event;
pub use self::mutex::{Mutex, MutexGuard};
pub use self::poison::{Cause, LockResult, PoisonError, TimedLockError, TryLockError};
pub use self::rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use self::semaphore::{Permit, Semaphore};
pub use self::service::{
    Call, CallError, Client, Draft, Reply, ServeError, Server, Service, ServiceOptions,
};

pub(crate) use self::wait::ROUND;

/// What objects are, in a segment.
mod kind {
    pub(super) const SERVICE: u32 = 1;
    pub(super) const EVENT: u32 = 2;
    pub(super) const MUTEX: u32 = 3;
    pub(super) const CHANNEL: u32 = 4;
    pub(super) const SEMAPHORE: u32 = 5;
    pub(super) const RWLOCK: u32 = 6;
}
