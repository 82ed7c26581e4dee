//! Views of Daiko's runtimes in other processes, which need not stop, and in core files.
//!
//! `daiko_core::inspect` reads fibers and workers; this crate finds its table, and adds stacks and
//! symbols. The commands `daiko ps`, `top`, `deadlock`, `core`, `trace` and
//! `profile` are made of it.
//!
//! All that it reads may be wrong or hostile: a process changes while it is read, and a core file
//! comes from anywhere.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("daiko-inspect unwinds frames of x86-64: it builds for such processors only");

mod core_file;
mod deadlocks;
mod mapping;
mod numbers;
mod pprof;
mod problem;
mod profile;
mod protobuf;
mod registers;
mod source;
mod stacks;
mod symbols;
mod trace;
mod unwind;
mod write_core;

pub use daiko_core::inspect::{
    FiberRow, FiberState, Listing, LockHolder, Party, Place, Reader, RecorderRow, RuntimeRow, Wait,
    WorkerRow, cycles, plain_text,
};

pub use core_file::parse_mapped_files;
pub use deadlocks::{Deadlocks, Waiting};
pub use mapping::{MemoryMapping, parse_maps};
pub use problem::InspectError;
pub use profile::{Profiled, profile};
pub use source::{LoadedFile, Subject, command_of};
pub use stacks::{Alike, Stack, group, stack_of};
pub use symbols::{Frame, Symbols, without_runtime};
#[doc(hidden)]
pub use trace::draw_events;
pub use trace::{Traced, trace};
pub use unwind::Backtracer;
pub use write_core::{Written, write_core};
