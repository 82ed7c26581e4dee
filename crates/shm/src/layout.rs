//! What lies where in a segment. Layout version 2.
//!
//! ```text
//! 0          HEADER      who made it, for whom
//! 4 KiB      ATTACHED    the processes that are attached
//! 20 KiB     DOORBELLS   what their threads sleep on
//! 84 KiB     OWNERS      whose each doorbell is
//! 92 KiB     SEATS       who spins, a seat for each CPU
//! 108 KiB    NAMES       what lies where behind them
//! 172 KiB    objects
//! ```
//!
//! All tables have the sizes that this version gives them, so that nothing which a peer could write says how
//! far to read. Everything is valid when zeroed.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64};

use daiko_core::doorbell::{Doorbell, Seat};

/// "daikoshm", read as a number of this machine's byte order, so that another order shows.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"daikoshm");
/// Raised with every change of this file, and of the objects' layouts.
pub(crate) const VERSION: u32 = 2;
/// What words look like to a process: the ELF machine and the width of a pointer.
pub(crate) const MACHINE: u32 = machine() << 8 | usize::BITS;

/// The most processes that are attached at a time.
pub const MAX_ATTACHED: usize = 256;
/// The most kernel threads that wait in a segment at a time.
pub const MAX_DOORBELLS: usize = 1024;
/// Seats: CPUs beyond share those of others.
pub(crate) const SEATS: usize = 256;
/// The most objects of a segment.
pub const MAX_OBJECTS: usize = 512;
/// The most bytes of an object's name.
pub const MAX_NAME: usize = 63;

/// The ELF number of the architecture that this is built for.
const fn machine() -> u32 {
    if cfg!(target_arch = "x86_64") {
        62
    } else if cfg!(target_arch = "aarch64") {
        183
    } else if cfg!(target_arch = "riscv64") {
        243
    } else {
        0
    }
}

/// The beginning of a segment. Written before anybody else can see it.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) machine: AtomicU32,
    /// Bytes of the whole segment.
    pub(crate) bytes: AtomicU64,
    /// How often somebody has come or gone, and how often a process has learned of a death. Raised by anyone.
    pub(crate) census: AtomicU64,
    /// So many doorbells, from the first one, have been anybody's: those behind them nobody sleeps on. Raised by who takes
    /// one.
    pub(crate) bells: AtomicU32,
}

/// The place of an attached process.
#[repr(C, align(64))]
pub(crate) struct Attached {
    /// `table::State`. Under the lock; loaded by anyone.
    pub(crate) state: AtomicU64,
    /// Which process it is: the fields of a `ProcessId`. Written under the lock before it is attached.
    pub(crate) pid: AtomicU64,
    pub(crate) start_ticks: AtomicU64,
    pub(crate) pid_namespace: AtomicU64,
    pub(crate) time_namespace: AtomicU64,
    pub(crate) boot: AtomicU64,
    pub(crate) image: AtomicU64,
}

/// Where a named object lies. All under the lock, `kind` last.
#[repr(C, align(128))]
pub(crate) struct Name {
    /// What it is; 0: the entry is free. Once it is set the rest does not change.
    pub(crate) kind: AtomicU32,
    pub(crate) offset: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// What the object's maker and its users have to agree upon, as a hash.
    pub(crate) agreed: AtomicU64,
    /// What its maker has chosen: sizes of parts.
    pub(crate) chosen: [AtomicU32; 4],
    pub(crate) name: [AtomicU64; 8],
}

/// The tables at the beginning of each segment.
#[repr(C)]
pub(crate) struct Tables {
    pub(crate) header: Page<Header>,
    pub(crate) attached: [Attached; MAX_ATTACHED],
    pub(crate) doorbells: [Doorbell; MAX_DOORBELLS],
    /// `Holder` bits of the process whose doorbell it is. Exchanged by whoever takes one that is
    /// nobody's or of a dead process.
    pub(crate) owners: [AtomicU64; MAX_DOORBELLS],
    pub(crate) seats: [Seat; SEATS],
    pub(crate) names: [Name; MAX_OBJECTS],
}

/// Something on pages of its own.
#[repr(C, align(4096))]
pub(crate) struct Page<T>(pub(crate) T);

/// Where objects begin.
pub(crate) const OBJECTS: usize = size_of::<Tables>();
/// Objects begin on lines of their own, where the processor's fetch of a pair does not reach another.
pub(crate) const OBJECT_ALIGN: usize = 128;
/// The fewest bytes of a segment.
pub const MIN_BYTES: usize = OBJECTS + 4096;

// The layout is part of the format.
const _: () = assert!(offset_of!(Tables, attached) == 4 << 10);
const _: () = assert!(offset_of!(Tables, doorbells) == 20 << 10);
const _: () = assert!(offset_of!(Tables, owners) == 84 << 10);
const _: () = assert!(offset_of!(Tables, seats) == 92 << 10);
const _: () = assert!(offset_of!(Tables, names) == 108 << 10);
const _: () = assert!(OBJECTS == 172 << 10);
