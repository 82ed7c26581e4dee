//! Objects in memory that processes share; they survive the death of a process at any instruction.
//!
//! README.md beside this file has the states, the steps, the proofs, and the duties of callers.
//! Nothing here waits: an operation says that it is done, or which word has to change before
//! another try is worth while; a caller that makes room for waiters is told to ring for them.
//!
//! All types are `#[repr(C)]` over atomics without a pointer, valid when zeroed, at any address.
//! Contents are trusted for their meaning only, never as an address or a length: for any bits that
//! a peer writes, each operation returns, and stays within the memory that it was given.

mod barrier;
mod condvar;
mod event;
mod holder;
mod lane;
mod mutex;
mod round;
mod rwlock;
mod seat;
mod semaphore;
mod slots;
mod word;

pub use barrier::{BarrierLook, BarrierPlace, BarrierSeen, RobustBarrier};
pub use condvar::{CondvarEntry, CondvarWait, RobustCondvar};
pub use event::RobustEvent;
pub use holder::Holder;
pub use lane::{Corrupt, Lane, LaneReceiver, LaneSender, NotReceived, NotSent};
pub use mutex::{FoundData, Lock, RobustMutex, Unlock};
pub use round::Round;
pub use rwlock::{Reads, RobustRwLock};
pub use seat::{Seat, Take};
pub use semaphore::{Acquire, RobustPermit, RobustSemaphore};
pub use slots::Slots;
pub use word::SeenWord;
use word::{LinePair, MOST_TRIES};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
