//! Views of runtimes from outside: the table that a process publishes, and its reader.
//!
//! A process with a runtime has one [`Table`], which an ELF note leads to. It says where the
//! process keeps its stacks, fibers, workers and runtimes. A [`Reader`] follows it through any
//! [`Memory`]: that of a live process, which need not stop, of a core file, or its own. See
//! `README.md`.

mod cycles;
mod holders;
mod image;
mod listing;
mod memory;
mod reader;
mod recorder;
mod row;
mod table;

pub use cycles::cycles;
pub use holders::{LockHolder, Party};
pub use image::{Image, Segment};
pub use listing::Listing;
pub use memory::{Memory, Span, plain_text};
pub use reader::{Reader, TableRefused};
pub use recorder::RecorderRow;
pub use row::{Context, FiberRow, FiberState, Place, RuntimeRow, Wait, WorkerRow};
pub use table::{
    BlockLayout, Field, Found, FrameLayout, HeldLayout, MAGIC, NOTE_OWNER, NOTE_TYPE,
    RecorderLayout, RuntimeLayout, SlabList, Table, ThreadWaitsLayout, VERSION, Words,
    WorkerLayout,
};
