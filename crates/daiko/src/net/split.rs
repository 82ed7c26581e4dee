//! The two directions of a stream, as separate values.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::ops::Deref;
use std::sync::Arc;

/// A stream of which a single direction can be shut.
pub(super) trait Halves {
    fn end_output(&self);
}

/// The borrowed half of a stream that reads, returned by
/// [`TcpStream::split`](super::TcpStream::split) and its like.
#[derive(Debug)]
pub struct ReadHalf<'s, S>(pub(super) &'s S);

/// The borrowed half of a stream that writes, returned by
/// [`TcpStream::split`](super::TcpStream::split) and its like.
#[derive(Debug)]
pub struct WriteHalf<'s, S>(pub(super) &'s S);

/// The half of a stream that reads, returned by
/// [`TcpStream::into_split`](super::TcpStream::into_split) and its like.
#[derive(Debug)]
pub struct OwnedReadHalf<S>(Arc<S>);

/// The half of a stream that writes, returned by
/// [`TcpStream::into_split`](super::TcpStream::into_split) and its like. Dropping it shuts its
/// direction.
#[derive(Debug)]
#[expect(private_bounds, reason = "only streams of this module are split")]
pub struct OwnedWriteHalf<S: Halves> {
    stream: Arc<S>,
    ends: bool,
}

pub(super) fn into_split<S: Halves>(stream: S) -> (OwnedReadHalf<S>, OwnedWriteHalf<S>) {
    let stream = Arc::new(stream);
    (OwnedReadHalf(stream.clone()), OwnedWriteHalf { stream, ends: true })
}

#[expect(private_bounds, reason = "only streams of this module are split")]
impl<S: Halves> OwnedReadHalf<S> {
    /// Joins both halves again.
    ///
    /// # Errors
    ///
    /// Both halves, if they belong to different streams.
    pub fn reunite(self, mut other: OwnedWriteHalf<S>) -> Result<S, (Self, OwnedWriteHalf<S>)> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err((self, other));
        }
        other.ends = false;
        drop(other);
        Ok(Arc::into_inner(self.0).expect("there are two halves of a stream"))
    }
}

impl<S: Halves> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        if self.ends {
            self.stream.end_output();
        }
    }
}

impl<S> Deref for ReadHalf<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.0
    }
}

impl<S> Deref for WriteHalf<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.0
    }
}

impl<S> Deref for OwnedReadHalf<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S: Halves> Deref for OwnedWriteHalf<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.stream
    }
}

/// Implements reads through the stream that `$half` leads to.
macro_rules! reads {
    ($half:ty, $($generics:tt)*) => {
        impl<$($generics)*> Read for $half
        where
            for<'r> &'r S: Read,
        {
            #[inline]
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                (&mut &**self).read(bytes)
            }

            fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&mut &**self).read_vectored(parts)
            }
        }
    };
}

/// Implements writes through the stream that `$half` leads to.
macro_rules! writes {
    ($half:ty, $($generics:tt)*) => {
        impl<$($generics)*> Write for $half
        where
            for<'w> &'w S: Write,
        {
            #[inline]
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                (&mut &**self).write(bytes)
            }

            fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                (&mut &**self).write_vectored(parts)
            }

            fn flush(&mut self) -> io::Result<()> {
                (&mut &**self).flush()
            }
        }
    };
}

reads!(ReadHalf<'_, S>, S);
reads!(OwnedReadHalf<S>, S);
writes!(WriteHalf<'_, S>, S);
writes!(OwnedWriteHalf<S>, S: Halves);
