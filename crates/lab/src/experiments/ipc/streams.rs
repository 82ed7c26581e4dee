//! What passes bytes on: a connection for each client, on which it writes its question and reads the
//! answer. A server of one client reads; of several, it waits by epoll.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, Read, Write},
    marker::PhantomData,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    slice,
};

use super::{
    client::{Questions, answer},
    method::Link,
};
use crate::kit::{Failure, again};

/// A kind of connection.
pub(super) trait Stream {
    /// The method's name.
    const NAME: &'static str;

    /// A new connection: the server's end and the client's.
    fn connect() -> io::Result<[End; 2]>;
}

/// One side's end of a connection.
pub(super) struct End {
    read: File,
    write: File,
}

impl End {
    /// What is read from `read` and written to `write`.
    pub(super) fn new(read: impl Into<OwnedFd>, write: impl Into<OwnedFd>) -> Self {
        Self { read: File::from(read.into()), write: File::from(write.into()) }
    }

    /// That of a descriptor for both.
    pub(super) fn of_both(both: impl Into<OwnedFd>) -> io::Result<Self> {
        let both = both.into();
        Ok(Self::new(both.try_clone()?, both))
    }

    #[inline]
    fn receive<const WORDS: usize>(&self) -> io::Result<[u64; WORDS]> {
        let mut message = [0; WORDS];
        (&self.read).read_exact(bytes(&mut message))?;
        Ok(message)
    }

    #[inline]
    fn send<const WORDS: usize>(&self, mut message: [u64; WORDS]) -> io::Result<()> {
        (&self.write).write_all(bytes(&mut message))
    }

    fn answer<const WORDS: usize>(&self) -> io::Result<()> {
        self.send::<WORDS>(answer(self.receive()?))
    }
}

/// The bytes of `words`.
fn bytes(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the same memory, borrowed alike; every byte of a word is a byte, and the other way
    // round.
    unsafe { slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// A connection for each client.
pub(super) struct Streams<S> {
    servers: Vec<End>,
    clients: Vec<End>,
    kind: PhantomData<fn() -> S>,
}

impl<S: Stream> Link for Streams<S> {
    const NAME: &'static str = S::NAME;

    fn open(clients: usize) -> Result<Self, Failure> {
        let pairs = (0..clients).map(|_| S::connect()).collect::<io::Result<Vec<_>>>();
        let pairs = pairs.map_err(|error| Failure::Limit(format!("{}: {error}", S::NAME)))?;
        let (servers, clients) = pairs.into_iter().map(<(End, End)>::from).unzip();
        Ok(Self { servers, clients, kind: PhantomData })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        match &self.servers[..] {
            [only] => loop {
                only.answer::<WORDS>()?;
            },
            several => serve_several::<WORDS>(several),
        }
    }

    fn ask<const WORDS: usize>(
        &self,
        client: usize,
        questions: Questions<'_, WORDS>,
    ) -> io::Result<()> {
        let end = &self.clients[client];
        questions.ask(|message| {
            end.send(*message)?;
            *message = end.receive()?;
            Ok(())
        })
    }
}

fn serve_several<const WORDS: usize>(ends: &[End]) -> io::Result<Infallible> {
    let epoll = epoll(ends)?;
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; ends.len()];
    let most = events.len() as i32;
    loop {
        // SAFETY: the events are valid for writes, and as many as is said.
        let ready = again(|| unsafe {
            libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), most, -1)
        })?;
        for event in &events[..ready as usize] {
            let index = event.u64;
            ends[index as usize].answer::<WORDS>()?;
        }
    }
}

/// Tells which of `ends` can be read, by index.
fn epoll(ends: &[End]) -> io::Result<OwnedFd> {
    // SAFETY: always safe to call.
    let fd = again(|| unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: `fd` is open and nobody else's.
    let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
    for (index, end) in ends.iter().enumerate() {
        let (fd, readable) = (end.read.as_raw_fd(), libc::EPOLLIN as u32);
        let mut event = libc::epoll_event { events: readable, u64: index as u64 };
        // SAFETY: the event is a live local.
        again(|| unsafe {
            libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event)
        })?;
    }
    Ok(epoll)
}
