//! TCP.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use daiko_sys::socket::{self, Listen, SockAddr};

use super::address::first_of;
use super::descriptor_state::Way;
use super::listener::Listener;
use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::stream::{Stream, stream};
use super::{ListenOptions, ToSocketAddrs};
use daiko_rt::Deadline;

/// A TCP connection, as [`std::net::TcpStream`]: a fiber that reads or writes is suspended until
/// it can.
///
/// Its two directions are used at the same time by two fibers, through `&TcpStream`, or
/// [`split`](Self::split).
///
/// ```
/// use daiko::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// daiko::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let server = daiko::spawn(move || {
///         let (mut stream, _) = listener.accept()?;
///         let mut question = [0; 3];
///         stream.read_exact(&mut question)?;
///         stream.write_all(&question)
///     });
///     let mut stream = TcpStream::connect(address)?;
///     stream.write_all(b"hop")?;
///     let mut answer = String::new();
///     stream.read_to_string(&mut answer)?;
///     assert_eq!(answer, "hop");
///     server.join().unwrap()
/// })
/// # .unwrap();
/// ```
pub struct TcpStream {
    pub(super) stream: Stream<net::TcpStream>,
}

stream!(TcpStream, net::TcpStream);

impl TcpStream {
    /// Connects to the first address that accepts.
    ///
    /// # Errors
    ///
    /// If the name cannot be looked up; the error of the last address.
    ///
    /// # Panics
    ///
    /// If it had to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
        first_of(address, |address| Self::connect_until(&address, || Deadline::NEVER))
    }

    /// Connects as [`connect`](Self::connect) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and [`TimedOut`](io::ErrorKind::TimedOut).
    ///
    /// # Panics
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_timeout(
        address: &SocketAddr,
        timeout: impl Into<Deadline> + Copy,
    ) -> io::Result<TcpStream> {
        Self::connect_until(address, || timeout.into())
    }

    fn connect_until(
        address: &SocketAddr,
        deadline: impl Fn() -> Deadline,
    ) -> io::Result<TcpStream> {
        let stream = Self::of(socket::connect_tcp(address)?.into());
        // Until then the socket has no peer, and no error.
        let is_connected = |socket: &net::TcpStream| {
            socket::connected(socket.as_fd())?;
            match socket.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                done => done.map(drop),
            }
        };
        let operation = "TcpStream::connect";
        stream.stream.io.perform(Way::Out, operation, deadline, is_connected, |()| false)?;
        Ok(stream)
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

    /// Waits until there is something to read, and copies it without taking it away.
    ///
    /// # Errors
    ///
    /// As a read.
    pub fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.look(|socket| socket.peek(bytes))
    }

    /// Sets whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.stream.io.get_ref().set_nodelay(nodelay)
    }

    /// Returns the value that was [set](Self::set_nodelay).
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.stream.io.get_ref().nodelay()
    }

    /// Sets the most routers that its packets pass.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.stream.io.get_ref().set_ttl(ttl)
    }

    /// Returns the value that was [set](Self::set_ttl).
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn ttl(&self) -> io::Result<u32> {
        self.stream.io.get_ref().ttl()
    }
}

impl From<OwnedFd> for TcpStream {
    /// Wraps a socket that does not block.
    fn from(nonblocking: OwnedFd) -> Self {
        Self::of(nonblocking.into())
    }
}

/// A TCP socket that waits for connections, as [`std::net::TcpListener`]: a fiber that accepts is
/// suspended until there is one.
///
/// Several fibers may accept from one listener; they are served in FIFO order. A server for all
/// workers spawns a fiber for each connection by [`Builder::spread`](crate::Builder::spread):
///
/// ```
/// use daiko::Builder;
/// use daiko::net::{TcpListener, TcpStream};
/// use std::io::{self, Write};
///
/// /// Until there is an error that does not concern a connection alone.
/// fn greet(listener: &TcpListener) -> io::Result<()> {
///     for stream in listener.incoming() {
///         let mut stream = stream?;
///         // Where there is no memory for a fiber, the connection is closed.
///         let _ = Builder::new().spread().spawn(move || stream.write_all(b"hello"));
///     }
///     Ok(())
/// }
///
/// daiko::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let server = daiko::spawn(move || greet(&listener));
///     let greeting = io::read_to_string(TcpStream::connect(address)?)?;
///     assert_eq!(greeting, "hello");
///     server.cancel();
///     io::Result::Ok(())
/// })
/// # .unwrap();
/// ```
///
/// If workers accept connections of their own, each has a listener: [`ListenOptions::reuse_port`].
pub struct TcpListener {
    pub(super) listener: Listener<net::TcpListener>,
}

impl TcpListener {
    /// Listens on the first address that can be used; port 0 stands for any free port.
    ///
    /// # Errors
    ///
    /// If the name cannot be looked up; the error of the last address: in use, not of this machine,
    /// not permitted.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        ListenOptions::new().tcp(address)
    }

    pub(super) fn listen(address: impl ToSocketAddrs, how: Listen) -> io::Result<TcpListener> {
        first_of(address, |address| Ok(Self::of(socket::listen_tcp(&address, how)?.into())))
    }

    /// Converts a listener of `std`, so that its calls suspend fibers. Its descriptor is
    /// non-blocking from here on.
    ///
    /// # Errors
    ///
    /// If the kernel refuses that.
    pub fn from_std(listener: net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self::of(listener))
    }

    fn of(nonblocking: net::TcpListener) -> Self {
        TcpListener { listener: Listener::of_nonblocking(nonblocking) }
    }

    /// Converts it into a listener of `std`, which blocks.
    ///
    /// # Errors
    ///
    /// If the kernel refuses that.
    pub fn into_std(self) -> io::Result<net::TcpListener> {
        let listener = self.listener.io.into_inner();
        listener.set_nonblocking(false)?;
        Ok(listener)
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    ///
    /// An error of the kernel. If no descriptor (see `ulimit -n`) or memory is left, the error
    /// comes after a pause of 1 to 128 ms, so that a fiber that keeps accepting lets other fibers
    /// run. The connection is kept meanwhile.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        Self::connection(self.listener.accept("TcpListener::accept")?)
    }

    pub(super) fn connection(
        (socket, address): (OwnedFd, SockAddr),
    ) -> io::Result<(TcpStream, SocketAddr)> {
        let address = address.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        Ok((TcpStream::of(socket.into()), address))
    }

    /// Returns the connections as they come, without an end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<TcpStream>> + '_ {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }

    /// Returns the address that it listens on.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.io.get_ref().local_addr()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.io.as_fd()
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.io.as_raw_fd()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.listener.io.get_ref().fmt(f)
    }
}
