//! The layout of a segment, version 5.
//!
//! ```text
//! 0          HEADER      format, version and size
//! 4 KiB      ATTACHED    the attached processes
//! 20 KiB     DOORBELLS   the words on which their threads sleep
//! 84 KiB     OWNERS      the owner of each doorbell
//! 92 KiB     SEATS       the spinning thread of each CPU
//! 108 KiB    NAMES       the entries of the objects behind them
//! 172 KiB    objects
//! ```
//!
//! All tables have fixed sizes in this version, so that no word of a hostile peer determines how
//! far to read. All memory is valid when zeroed.

use std::mem::{offset_of, size_of};

use daiko_core::doorbell::{Doorbell, SpinSeat};

use crate::atomic::{AtomicU32, AtomicU64};

/// "daikoshm" as a number in native byte order, which detects the other order.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"daikoshm");
/// Raised with every change of this file and of the objects' layouts.
pub(crate) const VERSION: u32 = 5;
/// The properties of words in a process: the ELF machine and the width of a pointer.
pub(crate) const MACHINE: u32 = machine() << 8 | usize::BITS;

/// Largest number of attached processes at a time.
pub const MAX_ATTACHED: usize = 256;
/// Largest number of kernel threads that wait in a segment at a time.
pub const MAX_DOORBELLS: usize = 1024;
/// Number of seats. CPUs with higher numbers share seats.
pub(crate) const SEATS: usize = 256;
/// Largest number of objects in a segment.
pub const MAX_OBJECTS: usize = 512;
/// Largest size of an object's name in bytes.
pub const MAX_NAME: usize = 63;

/// The ELF number of the target architecture.
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

/// The beginning of a segment. Written before any other process can see it.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) machine: AtomicU32,
    /// Size of the whole segment in bytes.
    pub(crate) bytes: AtomicU64,
    /// The membership epoch: incremented by any process that attaches, detaches or records a death.
    pub(crate) membership_epoch: AtomicU64,
    /// Number of leading doorbells that have ever had an owner: no thread sleeps on the rest.
    /// Raised by the process that takes a doorbell.
    pub(crate) bells: AtomicU32,
    /// Size of the creator's pages in bytes.
    pub(crate) page_bytes: AtomicU32,
}

/// The place of an attached process.
#[repr(C, align(64))]
pub(crate) struct Attached {
    /// A `table::AttachmentState`. Changed under the lock; loaded by any process.
    pub(crate) state: AtomicU64,
    /// The fields of a `ProcessId`. Written under the lock before the process is attached.
    pub(crate) pid: AtomicU64,
    pub(crate) start_ticks: AtomicU64,
    pub(crate) pid_namespace: AtomicU64,
    pub(crate) time_namespace: AtomicU64,
    pub(crate) boot: AtomicU64,
    pub(crate) image: AtomicU64,
    /// 1 if the process has marked the file with the number of this place. Written as above.
    pub(crate) is_marked: AtomicU64,
}

/// The entry of a named object. Written under the lock, `kind` last.
#[repr(C, align(128))]
pub(crate) struct Name {
    /// The kind; 0 if the entry is free. Once it is set, the rest does not change.
    pub(crate) kind: AtomicU32,
    pub(crate) offset: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// A hash of the properties on which the object's creator and users must agree; 0: none.
    pub(crate) agreed: AtomicU64,
    /// Values chosen by the creator: sizes of parts.
    pub(crate) chosen: [AtomicU32; 4],
    pub(crate) name: [AtomicU64; 8],
}

/// The tables at the beginning of each segment.
#[repr(C)]
pub(crate) struct Tables {
    pub(crate) header: PageAligned<Header>,
    pub(crate) attached: [Attached; MAX_ATTACHED],
    pub(crate) doorbells: [Doorbell; MAX_DOORBELLS],
    /// `Holder` bits of each doorbell's owner. Exchanged by a process that takes a doorbell without
    /// a live owner.
    pub(crate) owners: [AtomicU64; MAX_DOORBELLS],
    pub(crate) seats: [SpinSeat; SEATS],
    pub(crate) names: [Name; MAX_OBJECTS],
}

/// A value on pages of its own.
#[repr(C, align(4096))]
pub(crate) struct PageAligned<T>(pub(crate) T);

/// Offset of the objects.
pub(crate) const OBJECTS: usize = size_of::<Tables>();
/// Alignment of objects: pairs of cache lines, as the processor fetches lines in pairs.
pub(crate) const OBJECT_ALIGN: usize = 128;
/// Smallest size of a segment in bytes.
pub const MIN_BYTES: usize = OBJECTS + 4096;

// The layout is part of the format.
const _: () = assert!(offset_of!(Tables, attached) == 4 << 10);
const _: () = assert!(offset_of!(Tables, doorbells) == 20 << 10);
const _: () = assert!(offset_of!(Tables, owners) == 84 << 10);
const _: () = assert!(offset_of!(Tables, seats) == 92 << 10);
const _: () = assert!(offset_of!(Tables, names) == 108 << 10);
const _: () = assert!(OBJECTS == 172 << 10);
