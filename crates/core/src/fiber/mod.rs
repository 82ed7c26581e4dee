//! The words of one fiber, and the two places of a worker through which fibers reach it.
//!
//! README.md beside this file has the protocols: which thread may write which word, and why no wake
//! is lost between them.

mod completion;
mod exec_mode;
mod inbox;
mod lifo_slot;
mod owner;
mod refs;
mod state;

pub use completion::{Completion, Finish, WaiterId};
pub use exec_mode::{ExecMode, Lent};
pub use inbox::{Addressee, Batch, InHand, Inbox, Mail, Messages, Posted, Pushed};
pub use lifo_slot::{Access, LifoEntry, LifoSlot};
pub use owner::{Early, Owner, OwnerWord};
pub use refs::{HomeHint, Refs, Released};
pub use state::{ByExchange, Effect, Mode, Plain, RunState, Transition};

#[cfg(all(test, loom))]
mod model;
