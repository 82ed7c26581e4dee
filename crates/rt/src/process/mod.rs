//! Workers that are processes. README has the protocol.

pub mod call;
pub(crate) mod canary;
pub(crate) mod crew;
mod error;
pub mod estate;
pub(crate) mod heap;
mod life;
mod mode;
mod segment;
mod shared;
mod zygote;

pub use self::call::{
    Call, assert_in_call, call, in_call_slow, notes_calls, own_code, unwinds, with_course,
};
pub use self::canary::watch_static;
pub use self::error::ProcessError;
pub use self::estate::{Estate, Item, ItemKind};
pub use self::heap::{HeapStats, SharedHeap, is_shared};
pub use self::mode::is_active;
pub(crate) use self::mode::{Occupied, assert_frame_is_shared, no_guards, no_stack, occupy};
pub use self::shared::Static;
