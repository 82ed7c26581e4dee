//! The way in which calls on an open file are made.

use std::os::fd::BorrowedFd;

use daiko_sys::{descriptor, page_cache};

use crate::atomic::{AtomicU8, Ordering};

/// Kinds of files by the calls that may wait for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// None waits, as it is a regular file without a device.
    Memory,
    /// Reads from the page cache do not wait.
    Cached,
    /// All may wait.
    Device,
}

/// The medium of an open file, as far as it is known. All values lead to the same results.
#[derive(Debug)]
pub(super) struct KnownMedium(AtomicU8);

impl KnownMedium {
    const MEMORY: u8 = 0;
    const CACHED: u8 = 1;
    const DEVICE: u8 = 2;

    /// Asks the kernel, which may ask the server of a file system.
    pub(super) fn of(fd: BorrowedFd<'_>) -> Self {
        // Pipes and devices of such a file system wait for a peer.
        let is_memory =
            page_cache::is_memory(fd) && descriptor::is_always_ready(fd).is_ok_and(|ready| ready);
        if is_memory { Self(AtomicU8::new(Self::MEMORY)) } else { Self::unknown(fd) }
    }

    /// Returns the medium with which all calls are right on any file system, and asks none.
    pub(super) fn unknown(fd: BorrowedFd<'_>) -> Self {
        let is_direct = page_cache::is_direct(fd);
        Self(AtomicU8::new(if is_direct { Self::DEVICE } else { Self::CACHED }))
    }

    #[inline]
    pub(super) fn get(&self) -> Medium {
        // Relaxed: it orders nothing.
        match self.0.load(Ordering::Relaxed) {
            Self::MEMORY => Medium::Memory,
            Self::CACHED => Medium::Cached,
            _ => Medium::Device,
        }
    }

    /// Returns the same medium for another handle of the file.
    pub(super) fn same(&self) -> Self {
        Self(AtomicU8::new(self.0.load(Ordering::Relaxed)))
    }

    /// Notes that the file system cannot tell which bytes are in the cache.
    pub(super) fn cannot_tell(&self) {
        self.0.store(Self::DEVICE, Ordering::Relaxed);
    }
}
