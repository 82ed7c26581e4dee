//! Waiting in `read`.

use std::os::fd::{AsRawFd, OwnedFd};

/// Writes `bytes` in one call.
pub(super) fn write<const N: usize>(fd: &OwnedFd, bytes: [u8; N]) {
    retry(|| {
        // SAFETY: `bytes` is valid for reads of its length; `fd` is open.
        unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), N) }
    });
}

/// Reads `N` bytes in one call, waiting until they are there.
pub(super) fn read<const N: usize>(fd: &OwnedFd) {
    let mut bytes = [0u8; N];
    retry(|| {
        // SAFETY: `bytes` is valid for writes of its length; `fd` is open.
        unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), N) }
    });
}

/// Calls again while a signal handler has interrupted the call; the messages
/// are far smaller than what the kernel reads or writes in one piece.
fn retry(mut call: impl FnMut() -> isize) {
    while call() < 0 {}
}
