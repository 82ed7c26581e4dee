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

    /// The class of a thread, given a pidfd of the thread; `Unknown` if none is declared.
    ///
    /// # Errors
    ///
    /// The thread has ended, or the map cannot be read.
    pub fn class_of(&self, thread: BorrowedFd<'_>) -> Result<Class, Error> {
        let value = self.0.classes.lookup(&thread.as_raw_fd().to_ne_bytes(), MapFlags::ANY);
        let value = value
            .map_err(|error| Error::new(format!("cannot read the class of a thread: {error}")))?;
        let number = value.and_then(|value| value.first_chunk().copied()).map(u32::from_ne_bytes);
        Ok(number.map_or(Class::Unknown, |number| Class::from_bits(number as u8)))
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
