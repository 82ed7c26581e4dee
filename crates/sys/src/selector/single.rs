//! Blocking the calling thread on one descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use super::{Interest, LONGEST};

/// Blocks the thread until `fd` is ready in one of the directions `of`, or has failed. Returns
/// `false` if the timeout has passed.
///
/// A signal handler may cause an early `true`: the call on the descriptor shows its true state.
///
/// # Examples
///
/// ```
/// use daiko_sys::selector::{self, Interest};
/// use std::{os::fd::AsFd, os::unix::net::UnixStream, time::Duration};
///
/// let (here, _there) = UnixStream::pair()?;
/// assert!(selector::wait_for(here.as_fd(), Interest::WRITE, None)?);
/// assert!(!selector::wait_for(here.as_fd(), Interest::READ, Some(Duration::ZERO))?);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `ENOMEM`.
pub fn wait_for(fd: BorrowedFd<'_>, of: Interest, timeout: Option<Duration>) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: of.asked() as i16, revents: 0 };
    let timeout = timeout.map(timespec);
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the one entry is a live local, the timeout is null or a live local, and no signal
    // mask is given.
    match unsafe { libc::ppoll(&mut poll, 1, timeout, ptr::null()) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            error => Err(error),
        },
        ready => Ok(ready > 0),
    }
}

/// The timeout in the kernel's format, at most [`LONGEST`].
pub(crate) fn timespec(timeout: Duration) -> libc::timespec {
    let timeout = timeout.min(LONGEST);
    libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    }
}
