//! `eventfd`: an event counter per thread.

use std::fs::File;
use std::io::{self, Read, Write};

use super::harness::{Buffer, Gate, Turn};
use crate::kit::files;

/// A counter. Its reader waits until it is not 0, and clears it.
pub(super) struct EventFd(File);

pub(super) fn open(threads: usize) -> io::Result<Vec<Buffer<EventFd>>> {
    files::allow(threads).map_err(io::Error::other)?;
    (0..threads).map(|_| files::event_counter().map(EventFd).map(Buffer::new)).collect()
}

impl Gate for EventFd {
    fn wait(&self, _: &Turn<'_>) {
        (&self.0).read_exact(&mut [0; 8]).expect("a counter that is open is read");
    }

    fn wake(&self) {
        (&self.0).write_all(&1u64.to_ne_bytes()).expect("a counter that is open is written");
    }
}
