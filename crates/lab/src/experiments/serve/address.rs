//! Where a server listens, and how to connect to it.

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
    /// Over the loopback.
    Tcp,
    /// By a path.
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
    /// One that nobody listens at, of a path in `folder`.
    ///
    /// # Errors
    /// If there is no port left.
    pub(super) fn free(socket: Socket, folder: &Path) -> io::Result<Self> {
        match socket {
            // As of now: the kernel goes on to others before it gives this one away again.
            Socket::Tcp => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(Self::Tcp),
            Socket::Unix => Ok(Self::Unix(folder.join("socket"))),
        }
    }

    /// A connection, which sends at once what it is given.
    ///
    /// # Errors
    /// If nobody listens, or a limit is reached.
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

/// A connection that blocks.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// As what is read and written.
    pub(super) fn blocking(self) -> File {
        File::from(match self {
            Self::Tcp(stream) => OwnedFd::from(stream),
            Self::Unix(stream) => OwnedFd::from(stream),
        })
    }

    /// As what never blocks.
    pub(super) fn non_blocking(self) -> io::Result<File> {
        match &self {
            Self::Tcp(stream) => stream.set_nonblocking(true)?,
            Self::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(self.blocking())
    }
}
