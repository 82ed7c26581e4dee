//! Non-blocking sockets.
//!
//! `std` lacks sockets that are non-blocking from the start, connects that proceed in the
//! background, and options before `bind`. Addresses are those of `socket2`, which convert to those
//! of `std`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

pub use socket2::SockAddr;
use socket2::{Domain, Protocol, Socket, Type};

use crate::descriptor::check;

/// Accepts the next connection of a listener: a non-blocking socket, closed by `exec`, and the
/// peer's address.
///
/// # Errors
///
/// The errors of `accept4`; `WouldBlock` if the listener is non-blocking and has no connection.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SockAddr)> {
    // SAFETY: `try_init` passes a live storage and its length.
    let (fd, address) = unsafe {
        SockAddr::try_init(|storage, len| {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            check(libc::accept4(listener.as_raw_fd(), storage.cast(), len, flags))
        })
    }?;
    // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, address))
}

/// Creates a non-blocking TCP socket that connects to `address`. Once it is writable, [`connected`]
/// returns the outcome.
///
/// # Errors
///
/// The errors of `socket` and `connect`, except that the connect is in progress.
pub fn connect_tcp(address: &SocketAddr) -> io::Result<OwnedFd> {
    connect(Domain::for_address(*address), Some(Protocol::TCP), &(*address).into())
}

/// [`connect_tcp`] for a path. `WouldBlock` if the listener's backlog is full.
///
/// # Errors
///
/// The errors of [`connect_tcp`]; a path that is too long.
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    connect(Domain::UNIX, None, &SockAddr::unix(path)?)
}

fn connect(domain: Domain, protocol: Option<Protocol>, to: &SockAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), protocol)?;
    match socket.connect(to) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        done => done?,
    }
    Ok(socket.into())
}

/// The outcome of a background connect, once the socket is writable.
///
/// # Errors
///
/// The error of the connect.
pub fn connected(socket: BorrowedFd<'_>) -> io::Result<()> {
    match socket2::SockRef::from(&socket).take_error()? {
        None => Ok(()),
        Some(error) => Err(error),
    }
}

/// Receives available data from a connected socket, at most `bytes.len()`, without blocking even if
/// the socket itself would block.
///
/// # Errors
///
/// The errors of `recv`; `WouldBlock` if no data is available.
#[inline]
pub fn receive_now(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is live and has this length.
    unsafe { transfer(libc::SYS_recvfrom, socket, bytes.as_mut_ptr(), bytes.len(), 0) }
}

/// Sends as many of `bytes` as there is room for, without blocking even if the socket itself would
/// block, and without a signal if the peer has left.
///
/// # Errors
///
/// The errors of `send`; `WouldBlock` if there is no room.
#[inline]
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let (start, quiet) = (bytes.as_ptr().cast_mut(), libc::MSG_NOSIGNAL);
    // SAFETY: the bytes are live, and this call only reads them.
    unsafe { transfer(libc::SYS_sendto, socket, start, bytes.len(), quiet) }
}

/// Makes the call by its number: the functions of the C library are cancellation points, which in a
/// program with threads costs two exchanges for each call.
///
/// # Safety
///
/// The call may access `len` bytes from `start` on.
#[inline]
unsafe fn transfer(
    number: libc::c_long,
    socket: BorrowedFd<'_>,
    start: *mut u8,
    len: usize,
    flags: libc::c_int,
) -> io::Result<usize> {
    let (fd, flags, no_address) = (socket.as_raw_fd(), flags | libc::MSG_DONTWAIT, 0_usize);
    // SAFETY: by this function's contract; no address is passed.
    let moved = unsafe { libc::syscall(number, fd, start, len, flags, no_address, no_address) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// Options of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Connections that may wait to be accepted. The kernel has a limit of its own
    /// (`net.core.somaxconn`).
    pub backlog: u32,
    /// Lets several listeners with this option share the address: the kernel spreads connections
    /// over them.
    pub reuse_port: bool,
}

/// Creates a non-blocking TCP socket that listens on `address`, even if connections of an earlier
/// listener linger.
///
/// # Errors
///
/// The errors of `socket`, `bind` and `listen`.
pub fn listen_tcp(address: &SocketAddr, how: Listen) -> io::Result<OwnedFd> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(*address), kind, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(how.reuse_port)?;
    socket.bind(&(*address).into())?;
    socket.listen(i32::try_from(how.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// Returns true if a call failed for lack of descriptors or memory, in the process or in the
/// system.
pub fn is_want(error: &io::Error) -> bool {
    let wants = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|errno| wants.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::net::{self, Ipv4Addr};
    use std::os::fd::AsFd;

    use super::*;
    use crate::selector::{Interest, wait_for};

    const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    const USUAL: Listen = Listen { backlog: 16, reuse_port: false };

    #[test]
    fn a_connection_is_made_and_accepted_without_blocking() {
        let listener = net::TcpListener::from(listen_tcp(&HERE, USUAL).unwrap());
        let empty = accept(listener.as_fd()).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        let socket = connect_tcp(&listener.local_addr().unwrap()).unwrap();
        assert!(wait_for(socket.as_fd(), Interest::WRITE, None).unwrap());
        connected(socket.as_fd()).unwrap();
        let (_, from) = accept(listener.as_fd()).unwrap();
        assert_eq!(from.as_socket(), net::TcpStream::from(socket).local_addr().ok());
    }

    #[test]
    fn a_refused_connect_is_told_once_it_is_over() {
        let closed = net::TcpListener::bind(HERE).unwrap().local_addr().unwrap();
        let refused = connect_tcp(&closed).and_then(|socket| {
            assert!(wait_for(socket.as_fd(), Interest::WRITE, None)?);
            connected(socket.as_fd())
        });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_port_is_shared_only_by_listeners_with_the_option() {
        let shared = Listen { reuse_port: true, ..USUAL };
        let listener = net::TcpListener::from(listen_tcp(&HERE, shared).unwrap());
        let address = listener.local_addr().unwrap();
        assert!(listen_tcp(&address, shared).is_ok());
        let taken = listen_tcp(&address, USUAL).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_path_that_is_too_long_is_an_error() {
        assert!(connect_unix(Path::new(&"x".repeat(200))).is_err());
    }

    #[test]
    fn arrived_bytes_are_taken_without_a_wait() {
        let (mut one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let nothing = receive_now(other.as_fd(), &mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        std::io::Write::write_all(&mut one, b"daiko").unwrap();
        let mut bytes = [0; 3];
        assert_eq!(receive_now(other.as_fd(), &mut bytes).unwrap(), 3);
        assert_eq!(&bytes, b"dai");
    }

    #[test]
    fn bytes_are_sent_as_far_as_there_is_room_and_to_a_peer_that_stays() {
        let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(send_now(one.as_fd(), b"daiko").unwrap(), 5);
        let mut bytes = [0; 5];
        std::io::Read::read_exact(&mut other, &mut bytes).unwrap();
        assert_eq!(&bytes, b"daiko");
        let full = (0..10_000).find_map(|_| send_now(one.as_fd(), &[0; 4096]).err());
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
        // To drop it is not enough: the child of a test that forks has a copy for a while.
        other.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(send_now(one.as_fd(), b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn want_is_of_descriptors_and_memory() {
        assert!(is_want(&io::Error::from_raw_os_error(libc::EMFILE)));
        assert!(!is_want(&io::Error::from_raw_os_error(libc::EINVAL)));
    }
}
