//! Common parts of sockets for messages.

/// Adds the common methods to `$name`, a socket for messages around one of `$std`, with addresses
/// of type `$address`.
macro_rules! datagram {
    ($name:ident, $std:ty, $address:ty) => {
        impl $name {
            /// Converts a socket of `std`, so that its calls suspend fibers. Its descriptor is
            /// non-blocking from here on.
            ///
            /// # Errors
            ///
            /// If the kernel refuses that.
            pub fn from_std(socket: $std) -> io::Result<Self> {
                let io = Async::new(socket)?;
                Ok($name { io, reads: StreamTimeouts::new(), writes: StreamTimeouts::new() })
            }

            /// Converts it into a socket of `std`, which blocks.
            ///
            /// # Errors
            ///
            /// If the kernel refuses that.
            pub fn into_std(self) -> io::Result<$std> {
                let socket = self.io.into_inner();
                socket.set_nonblocking(false)?;
                Ok(socket)
            }

            /// Returns another handle of the same socket, with timeouts of its own.
            ///
            /// # Errors
            ///
            /// If no further descriptor is available.
            pub fn try_clone(&self) -> io::Result<Self> {
                Self::from_std(self.io.get_ref().try_clone()?)
            }

            fn input<R>(&self, call: impl FnMut(&$std) -> io::Result<R>) -> io::Result<R> {
                // A message does not tell whether more have come.
                self.io.perform(Way::In, "a receive", || self.reads.until(), call, |_| false)
            }

            fn output<R>(&self, call: impl FnMut(&$std) -> io::Result<R>) -> io::Result<R> {
                self.io.perform(Way::Out, "a send", || self.writes.until(), call, |_| false)
            }

            /// Waits for a message. Returns the number of its bytes that were stored, and the
            /// address of its sender.
            ///
            /// # Errors
            ///
            /// An error of the kernel, also for a message sent before.
            pub fn recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, $address)> {
                self.input(|socket| socket.recv_from(bytes))
            }

            /// Receives as [`recv_from`](Self::recv_from) does, without the address.
            ///
            /// # Errors
            ///
            /// As [`recv_from`](Self::recv_from).
            pub fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
                self.input(|socket| socket.recv(bytes))
            }

            /// Sends a message to the address that the socket is connected to; waits for room.
            ///
            /// # Errors
            ///
            /// An error of the kernel.
            pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                self.output(|socket| socket.send(bytes))
            }

            /// Returns the local address.
            ///
            /// # Errors
            ///
            /// If the kernel does not tell.
            pub fn local_addr(&self) -> io::Result<$address> {
                self.io.get_ref().local_addr()
            }

            /// Returns the address that it is connected to.
            ///
            /// # Errors
            ///
            /// If it is not connected.
            pub fn peer_addr(&self) -> io::Result<$address> {
                self.io.get_ref().peer_addr()
            }

            /// Sets the longest wait of each receive; `None`: no limit. A receive that waits longer
            /// fails with [`TimedOut`](io::ErrorKind::TimedOut).
            ///
            /// # Errors
            ///
            /// If the timeout is 0.
            pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.reads.set_timeout(timeout)
            }

            /// Sets the longest wait of each send, as [`set_read_timeout`](Self::set_read_timeout)
            /// does for receives.
            ///
            /// # Errors
            ///
            /// If the timeout is 0.
            pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.writes.set_timeout(timeout)
            }

            /// Returns the value that was [set](Self::set_read_timeout).
            pub fn read_timeout(&self) -> Option<Duration> {
                self.reads.timeout()
            }

            /// Returns the value that was [set](Self::set_write_timeout).
            pub fn write_timeout(&self) -> Option<Duration> {
                self.writes.timeout()
            }

            /// Sets the deadline of receives that begin to wait from here on; `None`: no limit.
            pub fn set_read_deadline(&self, deadline: Option<Instant>) {
                self.reads.set_deadline(deadline);
            }

            /// Sets the deadline of sends, as [`set_read_deadline`](Self::set_read_deadline) does
            /// for receives.
            pub fn set_write_deadline(&self, deadline: Option<Instant>) {
                self.writes.set_deadline(deadline);
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.io.as_raw_fd()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.io.get_ref().fmt(f)
            }
        }
    };
}
pub(super) use datagram;
