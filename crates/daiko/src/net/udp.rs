//! UDP.

use std::fmt;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use super::address::first_of;
use super::datagram::datagram;
use super::descriptor_state::Way;
use super::stream::StreamTimeouts;
use super::{Async, ToSocketAddrs};

/// A UDP socket, as [`std::net::UdpSocket`]: a fiber that receives is suspended until there is a
/// message.
///
/// ```
/// use daiko::net::UdpSocket;
///
/// daiko::run(|| {
///     let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
///     let address = there.local_addr()?;
///     let echo = daiko::spawn(move || {
///         let mut bytes = [0; 8];
///         let (len, from) = there.recv_from(&mut bytes)?;
///         there.send_to(&bytes[..len], from)
///     });
///     here.connect(address)?;
///     here.send(b"hop")?;
///     let mut bytes = [0; 8];
///     assert_eq!(here.recv(&mut bytes)?, 3);
///     assert_eq!(echo.join().unwrap()?, 3);
///     std::io::Result::Ok(())
/// })
/// # .unwrap();
/// ```
pub struct UdpSocket {
    pub(super) io: Async<net::UdpSocket>,
    reads: StreamTimeouts,
    writes: StreamTimeouts,
}

datagram!(UdpSocket, net::UdpSocket, SocketAddr);

impl UdpSocket {
    /// Opens a socket at the first address that can be used; port 0 stands for any free port.
    ///
    /// # Errors
    ///
    /// If the name cannot be looked up; the error of the last address.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        first_of(address, |address| Self::from_std(net::UdpSocket::bind(address)?))
    }

    /// Connects it to the first address that can be used: [`send`](Self::send) sends there, and
    /// only messages from there are received.
    ///
    /// # Errors
    ///
    /// If the name cannot be looked up; the error of the last address.
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        first_of(address, |address| self.io.get_ref().connect(address))
    }

    /// Sends a message to the first address of the name; waits for room.
    ///
    /// # Errors
    ///
    /// If the name cannot be looked up; an error of the kernel.
    pub fn send_to(&self, bytes: &[u8], address: impl ToSocketAddrs) -> io::Result<usize> {
        first_of(address, |address| self.output(|socket| socket.send_to(bytes, address)))
    }

    /// Receives as [`recv_from`](Self::recv_from) does, without taking the message away.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](Self::recv_from).
    pub fn peek_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.input(|socket| socket.peek_from(bytes))
    }

    /// Sets whether it may send to all machines of a network.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.io.get_ref().set_broadcast(broadcast)
    }
}
