//! Declared classes of threads, by which the scheduler pairs.

use std::os::fd::{AsRawFd, BorrowedFd};

use daiko_core::place::Class;
use libbpf_rs::{MapCore, MapFlags};

use super::maps::Maps;
use crate::Error;

/// The classes of threads. The kernel removes the class of a thread that ends.
pub struct Classes<'a>(&'a Maps);

impl<'a> Classes<'a> {
    pub(super) fn of(maps: &'a Maps) -> Self {
        Classes(maps)
    }

    /// Declares the class of a thread, given a pidfd of the thread. `Unknown` removes it.
    ///
    /// # Errors
    ///
    /// The thread has ended, or the map cannot be changed.
    pub fn declare(&self, thread: BorrowedFd<'_>, class: Class) -> Result<(), Error> {
        let key = thread.as_raw_fd().to_ne_bytes();
        let value = u32::from(class as u8).to_ne_bytes();
        let map = &self.0.classes;
        map.update(&key, &value, MapFlags::ANY)
            .map_err(|error| Error::new(format!("cannot declare the class of a thread: {error}")))
    }
}
