//! Segments: memory that unrelated processes share, and the objects that they wait for in it.
//!
//! A [`Segment`] has objects, by name. Any process may create or open an object, at any address,
//! and be killed at any instruction: the other processes go on, and are notified where it matters.
//!
//! | object | use | at a death |
//! |---|---|---|
//! | [`Event`] | something has happened | nothing is left |
//! | [`Mutex`], [`RwLock`] | values that one holder changes at a time | the next holder is told:
//! [`Cause::OwnerDied`] |
//! | [`Condvar`] | waits for a condition on a mutex's value | waiters look again |
//! | [`Once`] | a closure that one process runs for all | the next caller runs its own |
//! | [`Barrier`] | meetings of a number of parties | the waiting parties are told of it |
//! | [`Semaphore`] | permits | they are free again |
//! | [`Channel`] | messages to one receiver | sent messages arrive; the other end is told |
//! | [`MpmcChannel`] | messages to many receivers | likewise |
//! | [`Words`] | plain atomic words, also to be [watched](crate::watch) | nothing is left |
//! | [`Array`] | values without a lock | a change may be half made |
//! | [`Service`] | requests and replies | callers are told; slots are free again |
//!
//! Values and messages are plain data: [`bytemuck::Pod`], of the crate that is re-exported here.
//! They are copied, so that no peer changes a value under its reader. Fibers that wait suspend,
//! other threads block. [`select!`](crate::select!) waits for events and messages among other
//! operations. A process that is stopped keeps its locks and permits.
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
//!
//! A segment is for one user, by default. [`SegmentOptions`] are for several users, and say how far
//! these have to trust each other. A service may have several servers, in as many processes:
//! [`ServerBuilder::shared`].

mod select;

#[doc(hidden)]
pub use self::select::{SelectRecv, SelectWait};
#[doc(no_inline)]
pub use daiko_ipc::bytemuck;
#[doc(inline)]
pub use daiko_ipc::{
    Array, Barrier, BarrierError, BarrierParty, BarrierWaitResult, Bytes, Call, CallError, Cause,
    Channel, ChannelOptions, Client, Condvar, ConnectError, Content, Draft, Event, Grantee, Iter,
    LockResult, MpmcChannel, MpmcOptions, MpmcReceiver, MpmcSender, Mutex, MutexGuard, Once,
    OnceState, Permit, PoisonError, Reason, Receiver, RecvError, Reply, RwLock, RwLockReadGuard,
    RwLockWriteGuard, Segment, SegmentError, SegmentOptions, Semaphore, SendError, Sender,
    ServeError, Server, ServerBuilder, Service, ServiceOptions, SharedWord, TimedLockError,
    TryLockError, WaitTimeoutResult, Words,
};
