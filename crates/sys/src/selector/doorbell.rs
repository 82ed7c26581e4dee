//! How another thread ends a wait.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// An eventfd that is watched like any other descriptor. It is never read: each write to it is a change.
pub(super) struct Doorbell {
    event: OwnedFd,
    /// Whether a look has taken a ring from the kernel that was meant for a wait. Written and taken by those who look.
    heard: AtomicBool,
}

impl Doorbell {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: takes plain integers.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made it, for nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Self { event, heard: AtomicBool::new(false) })
    }

    pub(super) fn ring(&self) {
        let one = 1_u64;
        // The sum of all rings has 64 bits: the write does not fail in any program's life.
        // SAFETY: the eight bytes are a live local.
        unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Keeps a ring that came in a look for the next wait.
    pub(super) fn hear(&self) {
        // Relaxed: a hint to whoever waits next, which publishes nothing. What the ring is about is published by
        // what its ringer did before, and the call that brought it.
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Whether a ring was kept, which is used up by this.
    pub(super) fn take_heard(&self) -> bool {
        // Relaxed: as in `hear`. The load keeps the swap away from those who find nothing.
        self.heard.load(Ordering::Relaxed) && self.heard.swap(false, Ordering::Relaxed)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
