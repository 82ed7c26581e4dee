//! Sockets of one machine.

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
use super::stream::{Patience, Stream, stream};
use crate::time;
use daiko_rt::wait::Deadline;

/// Between two attempts where another socket has no room: the first pause, and the longest.
const PAUSES_MS: [u64; 2] = [1, 32];

/// Makes `call` until it does not fail for want of room at another socket: of that the kernel does not tell.
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

/// A stream between processes of one machine, as [`std::os::unix::net::UnixStream`]: who reads or writes is suspended until it
/// can be.
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
    stream: Stream<net::UnixStream>,
}

stream!(UnixStream, net::UnixStream);

impl UnixStream {
    /// Connects to the socket at `path`. Where as many wait there as may, it tries again, after pauses of 1 to 32 ms.
    ///
    /// # Errors
    ///
    /// That of the kernel.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let connect = || socket::connect_unix(path.as_ref());
        Ok(Self::of(again_with_pauses(Deadline::NEVER, connect)?.into()))
    }

    /// Two streams that are connected to each other.
    ///
    /// # Errors
    ///
    /// That of the kernel.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (a, b) = net::UnixStream::pair()?;
        Ok((Self::from_std(a)?, Self::from_std(b)?))
    }

    /// The address of the other side.
    ///
    /// # Errors
    ///
    /// If that is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.io.get_ref().peer_addr()
    }

    /// The address of this side.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.io.get_ref().local_addr()
    }
}

/// A socket that waits for connections at a path, as [`std::os::unix::net::UnixListener`]: who accepts is suspended until there
/// is one.
pub struct UnixListener {
    listener: Listener<net::UnixListener>,
}

impl UnixListener {
    /// Listens at `path`, which must not be there yet, and stays when the listener is gone.
    ///
    /// # Errors
    ///
    /// That of the kernel: in use, not permitted.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        Self::from_std(net::UnixListener::bind(path)?)
    }

    /// Makes a listener of `std` one that suspends fibers. Its descriptor is non-blocking from here on.
    ///
    /// # Errors
    ///
    /// If the kernel refuses that.
    pub fn from_std(listener: net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(UnixListener { listener: Listener::of_nonblocking(listener) })
    }

    /// As a listener of `std`, which blocks.
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

    /// The connections that come, one after the other, without an end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<UnixStream>> + '_ {
        std::iter::repeat_with(|| self.accept())
    }

    /// The address that it listens at.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.io.get_ref().local_addr()
    }
}

impl From<OwnedFd> for UnixStream {
    /// Of a socket that does not block.
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
    io: Async<net::UnixDatagram>,
    reads: Patience,
    writes: Patience,
}

datagram!(UnixDatagram, net::UnixDatagram, SocketAddr);

impl UnixDatagram {
    /// A socket at `path`, which must not be there yet, and stays when the socket is gone.
    ///
    /// # Errors
    ///
    /// That of the kernel.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::bind(path)?)
    }

    /// A socket without an address.
    ///
    /// # Errors
    ///
    /// That of the kernel.
    pub fn unbound() -> io::Result<Self> {
        Self::from_std(net::UnixDatagram::unbound()?)
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// That of the kernel.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = net::UnixDatagram::pair()?;
        Ok((Self::from_std(a)?, Self::from_std(b)?))
    }

    /// Has [`send`](Self::send) go to `path`, and takes messages of there alone.
    ///
    /// # Errors
    ///
    /// That of the kernel.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.io.get_ref().connect(path)
    }

    /// Sends a message to the socket at `path`; waits for room. Where there is none at that socket, which the kernel does
    /// not tell of, it tries again after pauses of 1 to 32 ms; [`connect`](Self::connect) and [`send`](Self::send) wait better.
    ///
    /// # Errors
    ///
    /// That of the kernel; [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let send = || self.io.get_ref().send_to(bytes, path.as_ref());
        again_with_pauses(self.writes.until(), send)
    }
}
