//! `pipe`: a pipe per thread, one byte per wake.

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

/// The two ends.
pub(super) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: `ends` is valid for writes of two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both are open and nobody else's.
        let [reader, writer] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Self { reader, writer })
    }
}

impl Gate for Pipe {
    const NAME: &'static str = "pipe";

    fn supports(spec: &Spec) -> Result<(), Skip> {
        files::check_allowed(2 * spec.threads)
    }

    fn open(threads: usize) -> io::Result<Vec<Self>> {
        files::allow(2 * threads).map_err(io::Error::other)?;
        (0..threads).map(|_| Self::new()).collect()
    }

    fn wait(&self, _: &Turn<'_>) {
        fd::read::<1>(&self.reader);
    }

    fn wake(&self) {
        fd::write(&self.writer, [1]);
    }
}
