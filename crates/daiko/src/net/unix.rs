//! Sockets between processes of one machine.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use daiko_sys::socket;

use super::Async;
use super::datagram::datagram;
use super::descriptor_state::Way;
use super::listener::Listener;
use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::stream::{Stream, StreamTimeouts, stream};
use crate::time;
use daiko_rt::Deadline;

/// Pauses between two attempts while another socket has no room: the first pause, and the longest.
const PAUSES_MS: [u64; 2] = [1, 32];

/// Repeats `call` while it fails for want of room at another socket: the kernel does not report
/// when that changes.
fn again_with_pauses<R>(
    deadline: Deadline,
    mut call: impl FnMut() -> io::Result<R>,
) -> io::Result<R> {
    let [mut pause, longest] = PAUSES_MS;
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        if deadline.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        time::sleep(Duration::from_millis(pause));
        pause = (2 * pause).min(longest);
    }
}

/// A stream between processes of one machine, as [`std::os::unix::net::UnixStream`]: a fiber that
/// reads or writes is suspended until it can.
///
/// ```
/// use daiko::net::UnixStream;
/// use std::io::{Read, Write};
///
/// daiko::run(|| {
///     let (mut here, mut there) = UnixStream::pair()?;
///     let echo = daiko::spawn(move || {
///         let mut bytes = [0; 3];
///         there.read_exact(&mut bytes)?;
///         there.write_all(&bytes)
///     });
///     here.write_all(b"hop")?;
///     let mut answer = String::new();
///     here.read_to_string(&mut answer)?;
///     assert_eq!(answer, "hop");
///     echo.join().unwrap()
/// })
/// # .unwrap();
/// ```
pub struct UnixStream {
    pub(super) stream: Stream<net::UnixStream>,
}

stream!(UnixStream, net::UnixStream);

impl UnixStream {
    /// Connects to the socket at `path`. If its queue of connections is full, it tries again, after
    /// pauses of 1 to 32 ms.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let connect = || socket::connect_unix(path.as_ref());
        Ok(Self::of(again_with_pauses(Deadline::NEVER, connect)?.into()))
    }

    /// Returns two streams that are connected to each other.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (a, b) = net::UnixStream::pair()?;
        Ok((Self::from_std(a)?, Self::from_std(b)?))
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    ///
    /// If the peer has left.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.io.get_ref().peer_addr()
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.io.get_ref().local_addr()
    }
}

/// A socket that waits for connections at a path, as [`std::os::unix::net::UnixListener`]: a fiber
/// that accepts is suspended until there is one.
pub struct UnixListener {
    pub(super) listener: Listener<net::UnixListener>,
}

impl UnixListener {
    /// Listens at `path`. It must not exist yet, and stays when the listener is dropped.
    ///
    /// # Errors
    ///
    /// An error of the kernel: in use, not permitted.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        Self::from_std(net::UnixListener::bind(path)?)
    }

    /// Converts a listener of `std`, so that its calls suspend fibers. Its descriptor is
    /// non-blocking from here on.
    ///
    /// # Errors
    ///
    /// If the kernel refuses that.
    pub fn from_std(listener: net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(UnixListener { listener: Listener::of_nonblocking(listener) })
    }

    /// Converts it into a listener of `std`, which blocks.
    ///
    /// # Errors
    ///
    /// If the kernel refuses that.
    pub fn into_std(self) -> io::Result<net::UnixListener> {
        let listener = self.listener.io.into_inner();
        listener.set_nonblocking(false)?;
        Ok(listener)
    }

    /// Waits for the next connection; as [`TcpListener::accept`](super::TcpListener::accept).
    ///
    /// # Errors
    ///
    /// As [`TcpListener::accept`](super::TcpListener::accept).
    ///
    /// # Panics
    ///
    /// As [`TcpListener::accept`](super::TcpListener::accept).
    pub fn accept(&self) -> io::Result<UnixStream> {
        let (socket, _) = self.listener.accept("UnixListener::accept")?;
        Ok(UnixStream::from(socket))
    }

    /// Returns the connections as they come, without an end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<UnixStream>> + '_ {
        std::iter::repeat_with(|| self.accept())
    }

    /// Returns the address that it listens at.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.io.get_ref().local_addr()
    }
}

impl From<OwnedFd> for UnixStream {
    /// Wraps a socket that does not block.
    fn from(nonblocking: OwnedFd) -> Self {
        Self::of(nonblocking.into())
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.io.as_fd()
    }
}

impl AsRawFd for UnixListener {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.io.as_raw_fd()
    }
}

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.listener.io.get_ref().fmt(f)
    }
}

/// A socket for messages between processes of one machine, as [`std::os::unix::net::UnixDatagram`].
///
/// ```
/// use daiko::net::UnixDatagram;
///
/// daiko::run(|| {
///     let (here, there) = UnixDatagram::pair()?;
///     let receiver = daiko::spawn(move || {
///         let mut bytes = [0; 8];
///         there.recv(&mut bytes)
///     });
///     here.send(b"hop")?;
///     assert_eq!(receiver.join().unwrap()?, 3);
///     std::io::Result::Ok(())
/// })
/// # .unwrap();
/// ```
pub struct UnixDatagram {
    pub(super) io: Async<net::UnixDatagram>,
    reads: StreamTimeouts,
    writes: StreamTimeouts,
}

datagram!(UnixDatagram, net::UnixDatagram, SocketAddr);

impl UnixDatagram {
    /// Opens a socket at `path`. It must not exist yet, and stays when the socket is dropped.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::bind(path)?)
    }

    /// Opens a socket without an address.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub fn unbound() -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::unbound()?)
    }

    /// Returns two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = net::UnixDatagram::pair()?;
        Ok((Self::from_std(a)?, Self::from_std(b)?))
    }

    /// Connects it to `path`: [`send`](Self::send) sends there, and only messages from there are
    /// received.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.io.get_ref().connect(path)
    }

    /// Sends a message to the socket at `path`; waits for room. The kernel does not report when
    /// that socket has room again, so it tries again after pauses of 1 to 32 ms;
    /// [`connect`](Self::connect) and [`send`](Self::send) wait better.
    ///
    /// # Errors
    ///
    /// An error of the kernel; [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let send = || self.io.get_ref().send_to(bytes, path.as_ref());
        again_with_pauses(self.writes.until(), send)
    }
}
