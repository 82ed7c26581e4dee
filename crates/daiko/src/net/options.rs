//! Options of listeners.

use std::io;

use daiko_sys::socket::Listen;

use super::{TcpListener, ToSocketAddrs};

/// Options of a [`TcpListener`].
///
/// ```
/// use daiko::net::ListenOptions;
///
/// let listener = ListenOptions::new().backlog(64).tcp("127.0.0.1:0")?;
/// assert_ne!(listener.local_addr()?.port(), 0);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "options listen to nothing before `tcp`"]
pub struct ListenOptions(Listen);

impl ListenOptions {
    /// Returns the options that [`TcpListener::bind`] uses.
    pub fn new() -> Self {
        ListenOptions(Listen { backlog: 1024, reuse_port: false })
    }

    /// Sets how many connections may wait to be accepted, up to the limit of the kernel
    /// (`net.core.somaxconn`). Default: 1024.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.0.backlog = connections;
        self
    }

    /// Sets whether other listeners with this option may listen on the same address
    /// (`SO_REUSEPORT`). The kernel spreads connections evenly over them. So each worker can have a
    /// listener of its own, and serve its connections from the first byte on; but a worker that is
    /// held up delays the connections that are meant for it. Default: no.
    pub fn reuse_port(mut self, reuse: bool) -> Self {
        self.0.reuse_port = reuse;
        self
    }

    /// Listens on the first address that can be used; port 0 stands for any free port.
    ///
    /// # Errors
    ///
    /// As [`TcpListener::bind`].
    pub fn tcp(self, address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        TcpListener::listen(address, self.0)
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self::new()
    }
}
