//! What streams of all kinds have in common: reads and writes that wait, and how long.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::Async;
use super::descriptor_state::Way;
use crate::atomic::{AtomicU64, Ordering};
use daiko_rt::Deadline;

/// How long calls of one direction wait.
#[derive(Debug)]
pub(super) struct Patience {
    /// Each call, in nanoseconds; `u64::MAX`: for ever.
    timeout: AtomicU64,
    /// All of them, on the monotonic clock; `u64::MAX`: for ever.
    deadline: AtomicU64,
}

impl Patience {
    const ENDLESS: u64 = u64::MAX;

    pub(super) const fn new() -> Self {
        Patience { timeout: AtomicU64::new(Self::ENDLESS), deadline: AtomicU64::new(Self::ENDLESS) }
    }

    /// That of a call that begins to wait now.
    pub(super) fn until(&self) -> Deadline {
        let timeout = match self.timeout.load(Ordering::Relaxed) {
            Self::ENDLESS => Deadline::NEVER,
            ns => Deadline::after(Duration::from_nanos(ns)),
        };
        let deadline = Deadline::from_ns(self.deadline.load(Ordering::Relaxed));
        timeout.min(deadline)
    }

    pub(super) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a timeout of 0 is not possible; None waits for ever",
            ));
        }
        let ns = timeout.map_or(Self::ENDLESS, |timeout| {
            u64::try_from(timeout.as_nanos()).unwrap_or(Self::ENDLESS)
        });
        self.timeout.store(ns, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        let ns = self.timeout.load(Ordering::Relaxed);
        (ns != Self::ENDLESS).then_some(Duration::from_nanos(ns))
    }

    pub(super) fn set_deadline(&self, deadline: Option<Instant>) {
        let deadline = deadline.map_or(Deadline::NEVER, Deadline::at);
        self.deadline.store(deadline.ns().unwrap_or(Self::ENDLESS), Ordering::Relaxed);
    }
}

/// A socket that is a stream, of `std`.
pub(super) struct Stream<S: AsFd> {
    pub(super) io: Async<S>,
    pub(super) reads: Patience,
    pub(super) writes: Patience,
}

impl<S: AsFd> Stream<S>
where
    for<'s> &'s S: Read + Write,
{
    /// Makes it from a socket that does not block.
    pub(super) fn of_nonblocking(socket: S) -> Self {
        let (reads, writes) = (Patience::new(), Patience::new());
        Stream { io: Async::of_nonblocking(socket), reads, writes }
    }

    #[inline]
    pub(super) fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let room = bytes.len();
        self.input(room, |mut socket| socket.read(bytes))
    }

    pub(super) fn read_vectored(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let room = parts.iter().map(|part| part.len()).sum();
        self.input(room, |mut socket| socket.read_vectored(parts))
    }

    /// A read that leaves room has found all that there was; not so the end, which is found again.
    #[inline]
    fn input(&self, room: usize, call: impl FnMut(&S) -> io::Result<usize>) -> io::Result<usize> {
        let drains = |&read: &usize| read > 0 && read < room;
        self.io.perform(Way::In, "a read of a stream", || self.reads.until(), call, drains)
    }

    #[inline]
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.output(bytes.len(), |mut socket| socket.write(bytes))
    }

    pub(super) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.output(len, |mut socket| socket.write_vectored(parts))
    }

    /// A write of a part has filled all the room.
    #[inline]
    fn output(&self, len: usize, call: impl FnMut(&S) -> io::Result<usize>) -> io::Result<usize> {
        let drains = |&written: &usize| written < len;
        self.io.perform(Way::Out, "a write to a stream", || self.writes.until(), call, drains)
    }

    /// Makes a call that reads nothing.
    pub(super) fn look<R>(&self, call: impl FnMut(&S) -> io::Result<R>) -> io::Result<R> {
        self.io.perform(Way::In, "a read of a stream", || self.reads.until(), call, |_| false)
    }
}

impl<S: AsFd + fmt::Debug> fmt::Debug for Stream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.get_ref().fmt(f)
    }
}

/// What all types around a [`Stream`] have, `$name` around one of `$std`.
macro_rules! stream {
    ($name:ident, $std:ty) => {
        impl $name {
            /// Makes a stream of `std` one whose calls suspend fibers. Its descriptor is
            /// non-blocking from here on.
            ///
            /// # Errors
            ///
            /// If the kernel refuses that.
            pub fn from_std(stream: $std) -> io::Result<Self> {
                stream.set_nonblocking(true)?;
                Ok(Self::of(stream))
            }

            fn of(nonblocking: $std) -> Self {
                Self { stream: Stream::<$std>::of_nonblocking(nonblocking) }
            }

            /// Converts it into a stream of `std`, which blocks.
            ///
            /// # Errors
            ///
            /// If the kernel refuses that.
            pub fn into_std(self) -> io::Result<$std> {
                let stream = self.stream.io.into_inner();
                stream.set_nonblocking(false)?;
                Ok(stream)
            }

            /// Another handle of the same stream, with timeouts of its own.
            ///
            /// # Errors
            ///
            /// If there can be no further descriptor.
            pub fn try_clone(&self) -> io::Result<Self> {
                Ok(Self::of(self.stream.io.get_ref().try_clone()?))
            }

            /// Waits until there is something to read, or the end of it, or an error. Another
            /// reader may take it before the caller. For a caller that allocates its buffer only
            /// once there is something to read.
            ///
            /// # Errors
            ///
            /// [`TimedOut`](io::ErrorKind::TimedOut), as a read.
            pub fn readable(&self) -> io::Result<()> {
                let until = self.stream.reads.until();
                self.stream.io.await_ready(Way::In, "a read of a stream", until)
            }

            /// Waits until there is room to write, or an error; as [`readable`](Self::readable).
            ///
            /// # Errors
            ///
            /// [`TimedOut`](io::ErrorKind::TimedOut), as a write.
            pub fn writable(&self) -> io::Result<()> {
                let until = self.stream.writes.until();
                self.stream.io.await_ready(Way::Out, "a write to a stream", until)
            }

            /// Ends one or both directions, for all handles: their waiters go on.
            ///
            /// # Errors
            ///
            /// As that of `std`.
            pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                self.stream.io.get_ref().shutdown(how)
            }

            /// The error that the socket has met since the last look.
            ///
            /// # Errors
            ///
            /// If the kernel does not tell.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.stream.io.get_ref().take_error()
            }

            /// Sets how long each read waits at most; `None`: without limit. Then it fails
            /// with [`TimedOut`](io::ErrorKind::TimedOut).
            ///
            /// # Errors
            ///
            /// If it is 0.
            pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.stream.reads.set_timeout(timeout)
            }

            /// Sets how long each write waits at most; as
            /// [`set_read_timeout`](Self::set_read_timeout).
            ///
            /// # Errors
            ///
            /// If it is 0.
            pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.stream.writes.set_timeout(timeout)
            }

            /// Returns the value that was [set](Self::set_read_timeout).
            pub fn read_timeout(&self) -> Option<Duration> {
                self.stream.reads.timeout()
            }

            /// Returns the value that was [set](Self::set_write_timeout).
            pub fn write_timeout(&self) -> Option<Duration> {
                self.stream.writes.timeout()
            }

            /// Until when reads that begin to wait from here on do so at most, whatever the
            /// timeout; `None`: however long it takes.
            pub fn set_read_deadline(&self, deadline: Option<Instant>) {
                self.stream.reads.set_deadline(deadline);
            }

            /// As [`set_read_deadline`](Self::set_read_deadline), of writes.
            pub fn set_write_deadline(&self, deadline: Option<Instant>) {
                self.stream.writes.set_deadline(deadline);
            }

            /// Its two directions, for two fibers of a scope.
            pub fn split(&self) -> (ReadHalf<'_, Self>, WriteHalf<'_, Self>) {
                (ReadHalf(self), WriteHalf(self))
            }

            /// Its two directions. The one that writes ends that direction when it is dropped, so
            /// that the peer reads to the end.
            pub fn into_split(self) -> (OwnedReadHalf<Self>, OwnedWriteHalf<Self>) {
                split::into_split(self)
            }
        }

        impl split::Halves for $name {
            fn end_output(&self) {
                // The peer may have gone before.
                let _ = self.shutdown(Shutdown::Write);
            }
        }

        stream!(reads_and_writes $name);
        stream!(reads_and_writes &$name);

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.stream.io.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.stream.io.as_raw_fd()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.stream.fmt(f)
            }
        }
    };
    (reads_and_writes $handle:ty) => {
        impl Read for $handle {
            #[inline]
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                self.stream.read(bytes)
            }

            fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.stream.read_vectored(parts)
            }
        }

        impl Write for $handle {
            #[inline]
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.stream.write(bytes)
            }

            fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                self.stream.write_vectored(parts)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}
pub(super) use stream;
