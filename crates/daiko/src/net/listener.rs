//! Common parts of all listeners: accepting, and the pause when no descriptor is left.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use daiko_sys::socket::{self, SockAddr};

use super::Async;
use super::descriptor_state::Way;
use crate::atomic::{AtomicU32, Ordering};
use crate::time;
use daiko_rt::Deadline;

/// The first pause after no descriptor was left for a connection, and the longest. Each pause is
/// twice the previous.
const PAUSES_MS: [u64; 2] = [1, 128];

/// A listener of `std`, and the number of failures in a row for want of a descriptor.
#[derive(Debug)]
pub(super) struct Listener<L: AsFd> {
    pub(super) io: Async<L>,
    failures: AtomicU32,
}

impl<L: AsFd> Listener<L> {
    /// Wraps a listener that does not block.
    pub(super) fn of_nonblocking(listener: L) -> Self {
        Listener { io: Async::of_nonblocking(listener), failures: AtomicU32::new(0) }
    }

    /// Accepts the next connection. A failure for want of descriptors or memory is returned after a
    /// pause, so that a caller that tries again and again leaves the worker to fibers that could
    /// free some. The connection waits meanwhile.
    pub(super) fn accept(&self, operation: &str) -> io::Result<(OwnedFd, SockAddr)> {
        let done = self.io.perform(Way::In, operation, || Deadline::NEVER, accept_one, |_| false);
        self.settle(&done);
        done
    }

    /// Accepts a connection that is there.
    pub(super) fn accept_now(&self) -> io::Result<(OwnedFd, SockAddr)> {
        let done = accept_one(self.io.get_ref());
        self.settle(&done);
        done
    }

    fn settle<R>(&self, done: &io::Result<R>) {
        match done {
            Err(error) if socket::is_want(error) => self.pause(),
            _ if self.failures.load(Ordering::Relaxed) != 0 => {
                self.failures.store(0, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    #[cold]
    fn pause(&self) {
        let [first, longest] = PAUSES_MS;
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        time::sleep(Duration::from_millis((first << failures.min(20)).min(longest)));
    }
}

fn accept_one<L: AsFd>(listener: &L) -> io::Result<(OwnedFd, SockAddr)> {
    loop {
        match socket::accept(listener.as_fd()) {
            // The peer of this connection has left: there may be further connections.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            done => return done,
        }
    }
}
