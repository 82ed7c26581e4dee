//! Errors of a forked process, reported to the process that forked it.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::failure::Failure;
use super::shared::Zeroed;

/// The error of a process.
pub(crate) struct Complaint(AtomicI32);

// SAFETY: an atomic number, for which zero is a valid value: no complaint.
unsafe impl Zeroed for Complaint {}

impl Complaint {
    /// Records the error, if there is one. Returns whether there is none.
    pub(crate) fn note<T>(&self, result: io::Result<T>) -> bool {
        let number = result.err().map_or(0, |error| number(&error));
        // Relaxed, like the load below: read when the process has ended.
        self.0.store(number, Ordering::Relaxed);
        number == 0
    }

    /// Returns the error, once the process has ended.
    pub(crate) fn get(&self) -> Option<io::Error> {
        let number = self.0.load(Ordering::Relaxed);
        (number != 0).then(|| io::Error::from_raw_os_error(number))
    }
}

/// A datum that differed from the expected one, reported by its receiver.
pub(crate) struct WrongDatum {
    is_told: AtomicU64,
    expected: AtomicU64,
    found: AtomicU64,
}

// SAFETY: atomic numbers, for which zero is a valid value: no wrong datum.
unsafe impl Zeroed for WrongDatum {}

impl WrongDatum {
    /// Records the first wrong datum.
    #[cold]
    pub(crate) fn note(&self, expected: u64, found: u64) {
        // Relaxed, like the loads below: read when the process has ended.
        if self.is_told.swap(1, Ordering::Relaxed) == 0 {
            self.expected.store(expected, Ordering::Relaxed);
            self.found.store(found, Ordering::Relaxed);
        }
    }

    /// Returns the failure, once the process has ended.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let [is_told, expected, found] =
            [&self.is_told, &self.expected, &self.found].map(|word| word.load(Ordering::Relaxed));
        (is_told != 0).then_some(Failure::WrongDatum { expected, found })
    }
}

/// Maps an error to a number of the system, as only a number fits.
fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::InvalidData => libc::EBADMSG,
        io::ErrorKind::NotFound => libc::ESRCH,
        _ => libc::EPIPE,
    })
}
