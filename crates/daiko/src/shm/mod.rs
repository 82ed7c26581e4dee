//! Segments: memory that unrelated processes share, and what they wait for in it.
//!
//! A [`Segment`] has objects, by name. Any process may create one or open it, at any address, and be killed at any
//! instruction: the others go on, and are told where it matters.
//!
//! | object | for | of the dead |
//! |---|---|---|
//! | [`Event`] | what has happened | nothing is left |
//! | [`Mutex`], [`RwLock`] | values that one changes at a time | the next holder is told: [`Cause::OwnerDied`] |
//! | [`Semaphore`] | permits | they are free again |
//! | [`Channel`] | messages to one receiver | what was sent arrives; the other end is told |
//! | [`Service`] | requests and replies | callers are told; slots are free again |
//!
//! Values and messages are plain data: [`bytemuck::Pod`], of the crate that is re-exported here. They are copied, so that no peer changes what somebody looks
//! at. Fibers that wait suspend, other threads block. A process that is stopped keeps what it has.
//!
//! ```
//! use daiko::shm::{Event, Mutex, Segment};
//!
//! // In each of some processes; here in one.
//! let name = format!("daiko-doc-objects-{}", std::process::id());
//! let segment = Segment::open_or_create(&name, 1 << 20)?;
//! let count = Mutex::open_or_create(&segment, "count", 0u64)?;
//! let done = Event::open_or_create(&segment, "done")?;
//!
//! *count.lock().unwrap() += 1;
//! if *count.lock().unwrap() == 1 {
//!     done.set();
//! }
//! done.wait();
//! segment.remove()?;
//! # Ok::<(), daiko::shm::SegmentError>(())
//! ```

mod channel;
mod event;
mod mutex;
mod placed;
mod poison;
mod rwlock;
mod semaphore;
mod service;
mod wait;
mod waits;
mod word;

#[doc(no_inline)]
pub use bytemuck;
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

pub(crate) use self::waits::SegmentWaits;

/// What objects are, in a segment.
mod kind {
    pub(super) const SERVICE: u32 = 1;
    pub(super) const EVENT: u32 = 2;
    pub(super) const MUTEX: u32 = 3;
    pub(super) const CHANNEL: u32 = 4;
    pub(super) const SEMAPHORE: u32 = 5;
    pub(super) const RWLOCK: u32 = 6;
}
