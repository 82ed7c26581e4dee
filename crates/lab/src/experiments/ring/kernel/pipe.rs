//! `pipe`: a pipe per thread, one byte per wake.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use super::harness::{Buffer, Gate, Turn};
use crate::kit::files;

/// Both ends of a pipe.
pub(super) struct Pipe(PipeReader, PipeWriter);

pub(super) fn open(threads: usize) -> io::Result<Vec<Buffer<Pipe>>> {
    files::allow(2 * threads).map_err(io::Error::other)?;
    let pipe = |_| io::pipe().map(|(reader, writer)| Buffer::new(Pipe(reader, writer)));
    (0..threads).map(pipe).collect()
}

impl Gate for Pipe {
    fn wait(&self, _: &Turn<'_>) {
        (&self.0).read_exact(&mut [0]).expect("a pipe that is open is read");
    }

    fn wake(&self) {
        (&self.1).write_all(&[1]).expect("a pipe that is open is written");
    }
}
