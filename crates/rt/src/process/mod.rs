//! Workers that are processes. README has the protocol.

pub(crate) mod canary;
mod error;
pub(crate) mod heap;
pub(crate) mod holding;
mod life;
mod mode;
mod occupy;
pub(crate) mod process_table;
mod robust_list;
mod segment;
mod shared;
pub(crate) mod worker_processes;
mod zygote;

pub use self::canary::{SumOfBits, watch_static};
pub use self::error::ProcessError;
pub use self::heap::{HeapStats, SharedHeap, is_shared};
pub use self::mode::is_active;
pub(crate) use self::mode::{assert_frame_is_shared, no_guards, no_stack};
pub(crate) use self::occupy::{Occupied, occupy};
pub(crate) use self::robust_list::RobustList;
pub use self::shared::Static;
