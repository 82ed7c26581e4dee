//! Ending a wait from another thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::atomic::{AtomicBool, Ordering};
use crate::descriptor::Reserved;

/// An eventfd that is watched like any other descriptor. It is never read: each write to it is a
/// change.
pub(super) struct Doorbell {
    event: Reserved<OwnedFd>,
    /// Set if a non-blocking poll consumed a ring that was meant for a wait. Written and taken by
    /// pollers.
    heard: AtomicBool,
}

impl Doorbell {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: takes plain integers.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Self { event: Reserved::new(event), heard: AtomicBool::new(false) })
    }

    pub(super) fn ring(&self) {
        let one = 1_u64;
        // SAFETY: the eight bytes are a live local. The write cannot fail in practice, as the sum
        // of all rings has 64 bits. Not by `write`, where a thread may be cancelled.
        unsafe { libc::syscall(libc::SYS_write, self.event.as_raw_fd(), &raw const one, 8) };
    }

    /// Keeps a ring that arrived during a non-blocking poll for the next wait.
    pub(super) fn hear(&self) {
        // Relaxed: a hint to the next waiter that publishes nothing. The subject of the ring is
        // published by the ringer's earlier stores and the call that delivered the ring.
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Takes a kept ring. Returns true if there was one.
    pub(super) fn take_heard(&self) -> bool {
        // Relaxed: see `hear`. The load saves pollers that find nothing the swap.
        self.heard.load(Ordering::Relaxed) && self.heard.swap(false, Ordering::Relaxed)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
