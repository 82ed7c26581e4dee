//! Epoll instances.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::children::again;

/// An epoll instance with a limit on the descriptors reported at once.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Box<[libc::epoll_event]>,
}

impl Epoll {
    /// Creates an instance that watches nothing yet, and reports at most `most` descriptors at
    /// once.
    ///
    /// # Errors
    /// Fails if there are too many descriptors.
    pub(crate) fn new(most: usize) -> io::Result<Self> {
        // SAFETY: always safe to call.
        let fd = again(|| unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: `fd` is open and owned by nothing else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; most].into() })
    }

    /// Watches `socket` for `events`, and reports it by `index`.
    ///
    /// # Errors
    /// Returns the error of `epoll_ctl`.
    pub(crate) fn add(&self, socket: &impl AsFd, events: i32, index: usize) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: index as u64 };
        let (epoll, socket) = (self.fd.as_raw_fd(), socket.as_fd().as_raw_fd());
        // SAFETY: the event is a live local.
        again(|| unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &mut event) })?;
        Ok(())
    }

    /// Returns the indices of descriptors with an event, after `timeout` milliseconds at the
    /// latest; -1 waits indefinitely.
    ///
    /// # Errors
    /// Returns the error of `epoll_wait`.
    #[inline]
    pub(crate) fn wait(
        &mut self,
        timeout: i32,
    ) -> io::Result<impl ExactSizeIterator<Item = usize>> {
        let (epoll, most) = (self.fd.as_raw_fd(), self.events.len() as i32);
        let ready = again(|| {
            // SAFETY: the events are valid for writes, and their number is passed.
            unsafe { libc::epoll_wait(epoll, self.events.as_mut_ptr(), most, timeout) }
        })?;
        // Copied, as the field is in a packed structure.
        Ok(self.events[..ready as usize].iter().map(|event| { event.u64 } as usize))
    }
}
