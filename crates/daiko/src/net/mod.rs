//! Sockets and other descriptors: a fiber that would block is suspended, and its worker runs other
//! fibers.
//!
//! The types have the shape of those of [`std::net`] and [`std::os::unix::net`]: a fiber reads,
//! writes, accepts and connects as a thread does. Threads that are no fibers may use them as well,
//! and block. Options that are missing here are set through [`AsFd`](std::os::fd::AsFd), as by
//! `socket2::SockRef`; other kinds of descriptors are used through [`Async`].
//!
//! The kernel holds no memory of a program while a fiber waits: the fiber waits until a call would
//! not block, and then makes it. So a wait that is [cancelled](crate::cancel), or times out, leaves
//! nothing behind, and has read or written nothing.
//!
//! A descriptor belongs to the worker of the fiber that waits for it first. The agent there asks
//! the kernel, by one system call for all of its descriptors, when no fiber is runnable, and
//! otherwise every 61 suspensions. A worker without work sleeps in that call, and uses no CPU.

mod address;
mod datagram;
mod descriptor;
pub(crate) mod descriptor_state;
mod follow;
mod io;
mod listener;
mod options;
mod pipe;
mod select;
mod split;
mod stream;
mod tcp;
mod udp;
mod unix;

pub use self::address::{Addresses, ToSocketAddrs, lookup_host};
pub use self::descriptor::Async;
pub(crate) use self::io::Io;
pub use self::options::ListenOptions;
pub use self::pipe::pipe;
#[doc(hidden)]
pub use self::select::SelectReady;
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
pub use self::tcp::{TcpListener, TcpStream};
pub use self::udp::UdpSocket;
pub use self::unix::{UnixDatagram, UnixListener, UnixStream};
pub use daiko_rt::Selector;
