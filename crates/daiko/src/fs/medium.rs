//! The way in which calls on an open file are made.

use std::os::fd::BorrowedFd;

use daiko_sys::page_cache;

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
pub(super) struct KnownMedium {
    medium: AtomicU8,
    /// True if it is known that calls may name an offset.
    has_offsets: bool,
}

impl KnownMedium {
    const MEMORY: u8 = 0;
    const CACHED: u8 = 1;
    const DEVICE: u8 = 2;

    /// Asks the kernel, which may ask the server of a file system.
    pub(super) fn of(fd: BorrowedFd<'_>) -> Self {
        let unknown = Self::unknown(fd);
        // Pipes and devices of such a file system wait for a peer.
        match unknown.has_offsets && page_cache::is_memory(fd) {
            true => Self { medium: AtomicU8::new(Self::MEMORY), ..unknown },
            false => unknown,
        }
    }

    /// Returns the medium with which all calls are right on any file system, and asks no server.
    pub(super) fn unknown(fd: BorrowedFd<'_>) -> Self {
        let is_direct = page_cache::is_direct(fd);
        let medium = AtomicU8::new(if is_direct { Self::DEVICE } else { Self::CACHED });
        Self { medium, has_offsets: page_cache::has_offsets(fd) }
    }

    #[inline]
    pub(super) fn get(&self) -> Medium {
        // Relaxed: it orders nothing.
        match self.medium.load(Ordering::Relaxed) {
            Self::MEMORY => Medium::Memory,
            Self::CACHED => Medium::Cached,
            _ => Medium::Device,
        }
    }

    /// Returns true if calls may wait for a device, and may name an offset.
    pub(super) fn has_offsets(&self) -> bool {
        self.has_offsets && self.get() != Medium::Memory
    }

    /// Returns the same medium for another handle of the file.
    pub(super) fn same(&self) -> Self {
        let medium = AtomicU8::new(self.medium.load(Ordering::Relaxed));
        Self { medium, has_offsets: self.has_offsets }
    }

    /// Notes that the file system cannot tell which bytes are in the cache.
    pub(super) fn cannot_tell(&self) {
        self.medium.store(Self::DEVICE, Ordering::Relaxed);
    }
}
