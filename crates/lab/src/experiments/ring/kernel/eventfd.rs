//! `eventfd`: an event counter per thread.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

use super::{
    fd,
    harness::{Gate, Turn},
};
use crate::{
    experiments::ring::Spec,
    kit::{Skip, files},
};

/// A counter whose reader waits until it is not 0, and clears it.
pub(super) struct EventFd(OwnedFd);

impl EventFd {
    fn new() -> io::Result<Self> {
        // SAFETY: always safe to call.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is open and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

impl Gate for EventFd {
    const NAME: &'static str = "eventfd";

    fn supports(spec: &Spec) -> Result<(), Skip> {
        files::check_allowed(spec.threads)
    }

    fn open(threads: usize) -> io::Result<Vec<Self>> {
        files::allow(threads).map_err(io::Error::other)?;
        (0..threads).map(|_| Self::new()).collect()
    }

    fn wait(&self, _: &Turn<'_>) {
        fd::read::<8>(&self.0);
    }

    fn wake(&self) {
        fd::write(&self.0, 1u64.to_ne_bytes());
    }
}
