//! Which connections have something to read, or room to write again.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

use crate::kit::again;

/// Connections that are handled before the next look at the clock.
const MOST_AT_ONCE: usize = 16;

/// An epoll instance that tells of each change once (edge-triggered).
pub(super) struct Epoll {
    fd: OwnedFd,
    events: Box<[libc::epoll_event]>,
}

impl Epoll {
    /// One that watches nothing yet.
    ///
    /// # Errors
    /// If there are too many descriptors.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: always safe to call.
        let fd = again(|| unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: `fd` is open and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; MOST_AT_ONCE].into() })
    }

    /// Watches `socket`, of which it will tell by `index`.
    ///
    /// # Errors
    /// What `epoll_ctl` reports.
    pub(super) fn add(&self, socket: &impl AsFd, index: usize) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: events as u32, u64: index as u64 };
        let (epoll, socket) = (self.fd.as_raw_fd(), socket.as_fd().as_raw_fd());
        // SAFETY: the event is a live local.
        again(|| unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &mut event) })?;
        Ok(())
    }

    /// Those that have changed, without waiting.
    ///
    /// # Errors
    /// What `epoll_wait` reports.
    pub(super) fn poll(&mut self) -> io::Result<impl ExactSizeIterator<Item = usize>> {
        let (epoll, most) = (self.fd.as_raw_fd(), self.events.len() as i32);
        // SAFETY: the events are valid for writes, and as many as is said.
        let ready =
            again(|| unsafe { libc::epoll_wait(epoll, self.events.as_mut_ptr(), most, 0) })?;
        // Copied out of a packed structure.
        Ok(self.events[..ready as usize].iter().map(|event| { event.u64 } as usize))
    }
}
