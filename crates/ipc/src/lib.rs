//! Segments: memory that unrelated processes share, and the objects that they wait for in it.
//!
//! Programs use `daiko::shm`, which re-exports the public items of this crate and introduces them.
//! Every item that is hidden here may change in any version.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod array;
mod atomic;
mod barrier;
mod bell;
mod caller;
mod channel;
mod condvar;
mod directory;
mod ends;
mod error;
mod event;
mod gate;
mod kind;
mod layout;
mod mpmc;
mod mutex;
mod once;
mod placed;
mod poison;
mod reaper;
mod rwlock;
mod segment;
mod select;
mod semaphore;
mod service;
mod table;
mod wait;
mod waits;
mod word;
mod words;

pub use array::Array;
pub use barrier::{Barrier, BarrierError, BarrierParty, BarrierWaitResult};
#[doc(no_inline)]
pub use bytemuck;
pub use channel::{
    Channel, ChannelOptions, ConnectError, Content, Iter, Receiver, RecvError, SendError, Sender,
};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use daiko_sys::file::{Grantee, Reason};
pub use error::SegmentError;
pub use event::Event;
pub use mpmc::{MpmcChannel, MpmcOptions, MpmcReceiver, MpmcSender};
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use poison::{Cause, LockResult, PoisonError, TimedLockError, TryLockError};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use segment::{Bytes, Segment, SegmentOptions};
pub use semaphore::{Permit, Semaphore};
pub use service::{
    Call, CallError, Client, Draft, Reply, ServeError, Server, ServerBuilder, Service,
    ServiceOptions,
};
pub use words::{SharedWord, Words};

#[doc(hidden)]
pub use bell::Bell;
#[doc(hidden)]
pub use directory::ObjectSpec;
#[doc(hidden)]
pub use error::Table;
#[doc(hidden)]
pub use layout::{MAX_ATTACHED, MAX_DOORBELLS, MAX_NAME, MAX_OBJECTS, MIN_BYTES};
#[doc(hidden)]
pub use segment::{Object, Shared};
#[doc(hidden)]
pub use select::{Missing, Place};
#[doc(hidden)]
pub use waits::SEGMENTS;
