//! Addresses of servers, and connections to them.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
};

use crate::kit::Choice;

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Socket {
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
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Returns an address without a listener; a path is in `folder`.
    ///
    /// # Errors
    /// Fails if there is no port left.
    pub(super) fn free(socket: Socket, folder: &Path) -> io::Result<Self> {
        match socket {
            // The port stays free for now: the kernel gives other ports away before it reuses this
            // one.
            Socket::Tcp => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(Self::Tcp),
            Socket::Unix => Ok(Self::Unix(folder.join("socket"))),
        }
    }

    /// Connects. The connection sends all data at once.
    ///
    /// # Errors
    /// Fails if there is no listener, or a limit is reached.
    pub(super) fn connect(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        }
    }
}

/// A blocking connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Turns the connection into a blocking file.
    pub(super) fn blocking(self) -> File {
        File::from(match self {
            Self::Tcp(stream) => OwnedFd::from(stream),
            Self::Unix(stream) => OwnedFd::from(stream),
        })
    }

    /// Turns the connection into a non-blocking file.
    pub(super) fn non_blocking(self) -> io::Result<File> {
        match &self {
            Self::Tcp(stream) => stream.set_nonblocking(true)?,
            Self::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(self.blocking())
    }
}
