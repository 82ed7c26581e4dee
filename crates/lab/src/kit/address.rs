//! Addresses of servers, and connections to them.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::case::Choice;

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    /// TCP over the loopback.
    Tcp,
    /// Unix socket at a path.
    Unix,
}

impl Choice for Socket {
    const NAMES: &'static [(Self, &'static str)] = &[(Self::Tcp, "tcp"), (Self::Unix, "unix")];
}

/// An address of either kind.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Returns an address without a listener; a path is in `folder`.
    ///
    /// # Errors
    /// Fails if there is no port left.
    pub(crate) fn free(socket: Socket, folder: &Path) -> io::Result<Self> {
        match socket {
            // The port stays free for now: the kernel gives other ports away before it reuses this
            // one.
            Socket::Tcp => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(Self::Tcp),
            Socket::Unix => Ok(Self::Unix(folder.join("socket"))),
        }
    }

    /// Returns the address of a port.
    ///
    /// # Errors
    /// Fails if it is a path.
    pub(crate) fn tcp(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(address) => Ok(*address),
            Self::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// A connection, which sends at once what it is given, and blocks unless `is_non_blocking`.
    ///
    /// # Errors
    /// Fails if there is no listener, or a limit is reached.
    pub(crate) fn connect(&self, is_non_blocking: bool) -> io::Result<File> {
        let socket = match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(is_non_blocking)?;
                OwnedFd::from(stream)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(is_non_blocking)?;
                OwnedFd::from(stream)
            }
        };
        Ok(File::from(socket))
    }
}
