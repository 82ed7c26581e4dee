//! Common parts of all streams: reads and writes that wait, and their timeouts.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use daiko_sys::socket;

use super::Async;
use super::descriptor_state::Way;
use crate::atomic::{AtomicU64, Ordering};
use daiko_rt::Deadline;

/// The timeout and the deadline of calls in one direction.
#[derive(Debug)]
pub(super) struct StreamTimeouts {
    /// The timeout of each call, in nanoseconds; `u64::MAX`: none.
    timeout: AtomicU64,
    /// The deadline of all calls, on the monotonic clock; `u64::MAX`: none.
    deadline: AtomicU64,
}

impl StreamTimeouts {
    const ENDLESS: u64 = u64::MAX;

    pub(super) const fn new() -> Self {
        StreamTimeouts {
            timeout: AtomicU64::new(Self::ENDLESS),
            deadline: AtomicU64::new(Self::ENDLESS),
        }
    }

    /// Returns the deadline of a call that begins to wait now.
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

/// A stream socket of `std`.
pub(super) struct Stream<S: AsFd> {
    pub(super) io: Async<S>,
    pub(super) reads: StreamTimeouts,
    pub(super) writes: StreamTimeouts,
}

impl<S: AsFd> Stream<S>
where
    for<'s> &'s S: Read + Write,
{
    /// Wraps a socket that does not block.
    pub(super) fn of_nonblocking(socket: S) -> Self {
        let (reads, writes) = (StreamTimeouts::new(), StreamTimeouts::new());
        Stream { io: Async::of_nonblocking(socket), reads, writes }
    }

    #[inline]
    pub(super) fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let room = bytes.len();
        self.input(room, |socket| socket::receive_now(socket.as_fd(), bytes))
    }

    pub(super) fn read_vectored(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let room = parts.iter().map(|part| part.len()).sum();
        self.input(room, |mut socket| socket.read_vectored(parts))
    }

    /// Reads. A read that leaves room has taken all bytes that had come; the end is different, as
    /// each further read finds it again.
    #[inline]
    fn input(&self, room: usize, call: impl FnMut(&S) -> io::Result<usize>) -> io::Result<usize> {
        let drains = |&read: &usize| read > 0 && read < room;
        self.io.perform(Way::In, "a read of a stream", || self.reads.until(), call, drains)
    }

    #[inline]
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.output(bytes.len(), |socket| socket::send_now(socket.as_fd(), bytes))
    }

    pub(super) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.output(len, |mut socket| socket.write_vectored(parts))
    }

    /// Writes. A write of a part has filled all the room.
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

/// Adds the common methods to `$name`, a [`Stream`] around one of `$std`.
macro_rules! stream {
    ($name:ident, $std:ty) => {
        impl $name {
            /// Converts a stream of `std`, so that its calls suspend fibers. Its descriptor is
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

            /// Returns another handle of the same stream, with timeouts of its own.
            ///
            /// # Errors
            ///
            /// If no further descriptor is available.
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

            /// Shuts one or both directions, for all handles: their waiters are woken.
            ///
            /// # Errors
            ///
            /// The errors of `std`.
            pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                self.stream.io.get_ref().shutdown(how)
            }

            /// Returns the last error of the socket, and clears it.
            ///
            /// # Errors
            ///
            /// If the kernel does not tell.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.stream.io.get_ref().take_error()
            }

            /// Sets the longest wait of each read; `None`: no limit. A read that waits longer fails
            /// with [`TimedOut`](io::ErrorKind::TimedOut).
            ///
            /// # Errors
            ///
            /// If the timeout is 0.
            pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.stream.reads.set_timeout(timeout)
            }

            /// Sets the longest wait of each write, as [`set_read_timeout`](Self::set_read_timeout)
            /// does for reads.
            ///
            /// # Errors
            ///
            /// If the timeout is 0.
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

            /// Sets the deadline of reads that begin to wait from here on, in addition to the
            /// timeout; `None`: no deadline.
            pub fn set_read_deadline(&self, deadline: Option<Instant>) {
                self.stream.reads.set_deadline(deadline);
            }

            /// Sets the deadline of writes, as [`set_read_deadline`](Self::set_read_deadline) does
            /// for reads.
            pub fn set_write_deadline(&self, deadline: Option<Instant>) {
                self.stream.writes.set_deadline(deadline);
            }

            /// Returns its two directions, for two fibers of a scope.
            pub fn split(&self) -> (ReadHalf<'_, Self>, WriteHalf<'_, Self>) {
                (ReadHalf(self), WriteHalf(self))
            }

            /// Splits it into its two directions. Dropping the half that writes shuts that
            /// direction, so that the peer reads to the end.
            pub fn into_split(self) -> (OwnedReadHalf<Self>, OwnedWriteHalf<Self>) {
                split::into_split(self)
            }
        }

        impl split::Halves for $name {
            fn end_output(&self) {
                // The peer may have left before.
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
