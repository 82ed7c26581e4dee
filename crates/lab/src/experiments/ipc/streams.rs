//! Byte streams: one connection per client, on which it writes its question and reads the answer. A
//! server of one client reads; a server of several clients waits by epoll.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::slice;

use super::client::{Calls, answer};
use super::method::{IpcSpec, Link};
use crate::kit::epoll::Epoll;
use crate::kit::{Failure, OrFailure};

/// A kind of connection.
pub(super) trait Stream {
    /// The method's name.
    const NAME: &'static str;

    /// Opens a connection; returns the server's end and the client's end.
    fn connect() -> io::Result<[StreamEnd; 2]>;
}

/// `pipe`: one pipe for each direction.
pub(super) struct Pipe;

impl Stream for Pipe {
    const NAME: &'static str = "pipe";

    fn connect() -> io::Result<[StreamEnd; 2]> {
        let (questions, asks) = io::pipe()?;
        let (answers, says) = io::pipe()?;
        Ok([StreamEnd::new(questions, says), StreamEnd::new(answers, asks)])
    }
}

/// `unix-socket`: a pair of stream sockets.
pub(super) struct UnixSocket;

impl Stream for UnixSocket {
    const NAME: &'static str = "unix-socket";

    fn connect() -> io::Result<[StreamEnd; 2]> {
        let (server, client) = UnixStream::pair()?;
        Ok([StreamEnd::of_both(server)?, StreamEnd::of_both(client)?])
    }
}

/// `tcp`: a connection over the loopback, with Nagle's algorithm off.
pub(super) struct Tcp;

impl Stream for Tcp {
    const NAME: &'static str = "tcp";

    fn connect() -> io::Result<[StreamEnd; 2]> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        server.set_nodelay(true)?;
        client.set_nodelay(true)?;
        Ok([StreamEnd::of_both(server)?, StreamEnd::of_both(client)?])
    }
}

/// One side's end of a connection.
pub(super) struct StreamEnd {
    read: File,
    write: File,
}

impl StreamEnd {
    /// An end that reads from `read` and writes to `write`.
    fn new(read: impl Into<OwnedFd>, write: impl Into<OwnedFd>) -> Self {
        Self { read: File::from(read.into()), write: File::from(write.into()) }
    }

    /// An end of a descriptor for both directions.
    fn of_both(both: impl Into<OwnedFd>) -> io::Result<Self> {
        let both = both.into();
        Ok(Self::new(both.try_clone()?, both))
    }

    #[inline]
    fn receive<const WORDS: usize>(&self, message: &mut [u64; WORDS]) -> io::Result<()> {
        (&self.read).read_exact(bytes(message))
    }

    #[inline]
    fn send<const WORDS: usize>(&self, message: &mut [u64; WORDS]) -> io::Result<()> {
        (&self.write).write_all(bytes(message))
    }

    /// Answers the next question, by way of `message`.
    fn answer<const WORDS: usize>(&self, message: &mut [u64; WORDS]) -> io::Result<()> {
        self.receive(message)?;
        answer(message);
        self.send(message)
    }
}

/// The bytes of `words`.
fn bytes(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the same memory under the same borrow; every byte pattern is valid for both types.
    unsafe { slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// One connection per client.
pub(super) struct Streams<S> {
    servers: Vec<StreamEnd>,
    clients: Vec<StreamEnd>,
    kind: PhantomData<fn() -> S>,
}

impl<S: Stream> Link for Streams<S> {
    const NAME: &'static str = S::NAME;

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        let pairs = (0..spec.clients).map(|_| S::connect()).collect::<io::Result<Vec<_>>>();
        let (servers, clients) =
            pairs.or_limit(S::NAME)?.into_iter().map(<(StreamEnd, StreamEnd)>::from).unzip();
        Ok(Self { servers, clients, kind: PhantomData })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        let mut message = [0; WORDS];
        match &self.servers[..] {
            [only] => loop {
                only.answer(&mut message)?;
            },
            several => serve_several(several, &mut message),
        }
    }

    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let end = &self.clients[client];
        calls.make(|message| {
            end.send(message)?;
            end.receive(message)
        })
    }
}

fn serve_several<const WORDS: usize>(
    ends: &[StreamEnd],
    message: &mut [u64; WORDS],
) -> io::Result<Infallible> {
    let mut epoll = Epoll::new(ends.len())?;
    for (index, end) in ends.iter().enumerate() {
        epoll.add(&end.read, libc::EPOLLIN, index)?;
    }
    loop {
        for index in epoll.wait(-1)? {
            ends[index].answer(message)?;
        }
    }
}
