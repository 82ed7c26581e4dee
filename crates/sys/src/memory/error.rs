//! Reasons for refusing memory, with their remedies.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ptr;

use super::page_size;
use crate::limits::{Resource, rlimit};

/// Reason for refusing memory. Its message names the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// This process already has `vm.max_map_count` mappings.
    Mappings,
    /// `RLIMIT_AS` or `RLIMIT_DATA` would be exceeded.
    AddressSpace {
        /// The requested size.
        bytes: usize,
    },
    /// `RLIMIT_MEMLOCK` would be exceeded, in a process that locks its memory.
    Locked {
        /// The requested size.
        bytes: usize,
    },
    /// The reservation of a shared arena is used up.
    Reservation {
        /// The requested size.
        bytes: usize,
    },
    /// The system lacks that amount of memory or addresses.
    Exhausted {
        /// The requested size.
        bytes: usize,
    },
    /// The kernel refused for a reason of its own.
    Refused {
        /// The kernel's error number.
        errno: i32,
    },
}

impl MemoryError {
    /// Determines the limit behind `errno`. Allocates nothing.
    pub(crate) fn diagnose(errno: i32, bytes: usize) -> Self {
        match errno {
            libc::EAGAIN => Self::Locked { bytes },
            libc::ENOMEM if exceeds_rlimit(bytes) => Self::AddressSpace { bytes },
            libc::ENOMEM if !can_map_a_page() => Self::Mappings,
            libc::ENOMEM => Self::Exhausted { bytes },
            _ => Self::Refused { errno },
        }
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Mappings => {
                f.write_str("too many memory mappings: raise vm.max_map_count (sysctl)")
            }
            Self::AddressSpace { bytes } => {
                write!(
                    f,
                    "no address space for {bytes} bytes: raise RLIMIT_AS and RLIMIT_DATA (ulimit -v, -d)"
                )
            }
            Self::Locked { bytes } => {
                write!(f, "cannot lock {bytes} bytes: raise RLIMIT_MEMLOCK (ulimit -l)")
            }
            Self::Reservation { bytes } => {
                write!(f, "no room for {bytes} bytes in the shared arena: reserve more")
            }
            Self::Exhausted { bytes } => {
                write!(f, "no memory for {bytes} bytes: ask for less, or see vm.overcommit_memory")
            }
            Self::Refused { errno } => {
                write!(f, "memory refused: {}", std::io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl std::error::Error for MemoryError {}

/// Returns true if the process's use plus `bytes` exceeds a limit (`statm`: total in field 0, data
/// in field 5).
fn exceeds_rlimit(bytes: usize) -> bool {
    let mut text = [0; 256];
    let len = File::open("/proc/self/statm").and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    let text = str::from_utf8(&text[..len]).unwrap_or_default();
    let exceeds = |resource, field| {
        let pages: usize =
            text.split(' ').nth(field).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        let wanted = pages.saturating_mul(page_size()).saturating_add(bytes);
        rlimit(resource).is_some_and(|limit| wanted as u64 > limit)
    };
    exceeds(Resource::AddressSpace, 0) || exceeds(Resource::Data, 5)
}

/// Tries to map a shared page, which the kernel never merges with an adjacent mapping.
fn can_map_a_page() -> bool {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at a place that the kernel chooses, unmapped again at once.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), page_size(), libc::PROT_NONE, flags, -1, 0);
        page != libc::MAP_FAILED && libc::munmap(page, page_size()) == 0
    }
}
