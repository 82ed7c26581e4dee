//! A wrapper with which fibers wait for any descriptor.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use daiko_sys::descriptor;

use super::descriptor_state::{DescriptorState, Way};
use daiko_rt::Deadline;

/// A wrapper of a descriptor: a call that would block suspends the calling fiber. A thread that is
/// no fiber blocks.
///
/// It makes the descriptor non-blocking, which is a property of the open file: duplicates see it
/// as well. Any number of fibers and threads may use it at the same time; waiters for the same
/// direction are served in FIFO order.
///
/// ```
/// use daiko::net::Async;
/// use std::io::{Read, Write};
///
/// daiko::run(|| {
///     let (reader, mut writer) = std::io::pipe()?;
///     let reader = Async::new(reader)?;
///     let echo = daiko::spawn(move || {
///         let mut bytes = [0; 5];
///         (&reader).read_exact(&mut bytes).map(|()| bytes)
///     });
///     writer.write_all(b"daiko")?;
///     assert_eq!(&echo.join().unwrap()?, b"daiko");
///     std::io::Result::Ok(())
/// }).unwrap();
/// ```
pub struct Async<T: AsFd> {
    io: ManuallyDrop<T>,
    source: Arc<DescriptorState>,
}

impl<T: AsFd> Async<T> {
    /// Makes the descriptor of `io` non-blocking. A drop of the wrapper drops `io` as usual.
    ///
    /// # Errors
    ///
    /// If `io` cannot be waited for, as a regular file; any error of the kernel.
    pub fn new(io: T) -> io::Result<Self> {
        if descriptor::is_always_ready(io.as_fd())? {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "files and folders are always ready: read and write them by daiko::blocking",
            ));
        }
        descriptor::set_nonblocking(io.as_fd(), true)?;
        Ok(Self::of_nonblocking(io))
    }

    pub(super) fn of_nonblocking(io: T) -> Self {
        Async { io: ManuallyDrop::new(io), source: DescriptorState::new() }
    }

    pub(super) fn parts(&self) -> (BorrowedFd<'_>, &Arc<DescriptorState>) {
        (self.io.as_fd(), &self.source)
    }

    /// Returns a reference to the object inside.
    pub fn get_ref(&self) -> &T {
        &self.io
    }

    /// Returns the object inside, still non-blocking.
    pub fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        this.source.close(this.io.as_fd());
        // SAFETY: neither is used again, as `this` is never dropped.
        unsafe {
            std::ptr::drop_in_place(&mut this.source);
            ManuallyDrop::take(&mut this.io)
        }
    }

    /// Waits until there is something to read, or the end of it, or an error. Another reader may
    /// take it before the caller.
    ///
    /// For a caller that allocates its buffer only once there is something to read.
    ///
    /// # Errors
    ///
    /// An error of the kernel if the descriptor cannot be waited for.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn readable(&self) -> io::Result<()> {
        self.await_ready(Way::In, "Async::readable", Deadline::NEVER)
    }

    /// Waits until there is room to write, or an error; as [`readable`](Self::readable).
    ///
    /// # Errors
    ///
    /// As [`readable`](Self::readable).
    ///
    /// # Panics
    ///
    /// As [`readable`](Self::readable).
    pub fn writable(&self) -> io::Result<()> {
        self.await_ready(Way::Out, "Async::writable", Deadline::NEVER)
    }

    pub(super) fn await_ready(
        &self,
        way: Way,
        operation: &str,
        deadline: Deadline,
    ) -> io::Result<()> {
        self.source.await_ready(self.io.as_fd(), way, operation, deadline)
    }

    /// Makes `call`, which reads without blocking, until it fails with another error than
    /// [`WouldBlock`](io::ErrorKind::WouldBlock), or succeeds. In between it waits until there is
    /// something to read.
    ///
    /// # Errors
    ///
    /// The error of `call`; an error of the kernel if the descriptor cannot be waited for.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn read_with<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.perform(Way::In, "Async::read_with", || Deadline::NEVER, call, |_| false)
    }

    /// Reads as [`read_with`](Self::read_with) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`read_with`](Self::read_with), and [`TimedOut`](io::ErrorKind::TimedOut).
    ///
    /// # Panics
    ///
    /// As [`read_with`](Self::read_with).
    pub fn read_with_timeout<R>(
        &self,
        timeout: impl Into<Deadline> + Copy,
        call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.perform(Way::In, "Async::read_with", || timeout.into(), call, |_| false)
    }

    /// Writes as [`read_with`](Self::read_with) reads.
    ///
    /// # Errors
    ///
    /// As [`read_with`](Self::read_with).
    ///
    /// # Panics
    ///
    /// As [`read_with`](Self::read_with).
    pub fn write_with<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.perform(Way::Out, "Async::write_with", || Deadline::NEVER, call, |_| false)
    }

    /// Writes as [`write_with`](Self::write_with) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`read_with_timeout`](Self::read_with_timeout).
    ///
    /// # Panics
    ///
    /// As [`read_with`](Self::read_with).
    pub fn write_with_timeout<R>(
        &self,
        timeout: impl Into<Deadline> + Copy,
        call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.perform(Way::Out, "Async::write_with", || timeout.into(), call, |_| false)
    }

    #[inline]
    pub(super) fn perform<R>(
        &self,
        way: Way,
        operation: &str,
        deadline: impl Fn() -> Deadline,
        mut call: impl FnMut(&T) -> io::Result<R>,
        drains: impl Fn(&R) -> bool,
    ) -> io::Result<R> {
        self.source.perform(self.io.as_fd(), way, operation, deadline, || call(&self.io), drains)
    }
}

impl<T: AsFd> Drop for Async<T> {
    fn drop(&mut self) {
        // Closed before the descriptor is.
        self.source.close(self.io.as_fd());
        // SAFETY: it is not used again.
        unsafe { ManuallyDrop::drop(&mut self.io) };
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl<T: AsFd> AsRawFd for Async<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_fd().as_raw_fd()
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for Async<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Async").field(&*self.io).finish()
    }
}

impl<T: AsFd> Read for &Async<T>
where
    for<'t> &'t T: Read,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_with(|mut io| io.read(bytes))
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_with(|mut io| io.read_vectored(parts))
    }
}

impl<T: AsFd> Read for Async<T>
where
    for<'t> &'t T: Read,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&*self).read(bytes)
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(parts)
    }
}

impl<T: AsFd> Write for &Async<T>
where
    for<'t> &'t T: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_with(|mut io| io.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(|mut io| io.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_with(|mut io| io.flush())
    }
}

impl<T: AsFd> Write for Async<T>
where
    for<'t> &'t T: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}
