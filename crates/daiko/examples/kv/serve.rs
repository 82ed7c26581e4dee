//! A connection: reads and carries out requests, and writes replies, as many at a time as there
//! are.

use std::io::{self, ErrorKind, Read, Write};

use super::buffers::Buffers;
use super::commands::Database;
use super::resp::Parsed;

/// The number of bytes of the first read.
const READ_BYTES: usize = 16 << 10;
/// Replies are sent once they are so long, even if more requests are there: a client that reads no
/// replies is not served.
const ENOUGH_REPLIES: usize = 64 << 10;
/// The limit on the bytes of a request, with all of its arguments.
const MOST_BYTES: usize = 1 << 30;

/// The methods of a socket that [`serve`] needs.
pub(crate) trait Connection: Read + Write {
    /// Waits until there is something to read, or the end, or an error. The connection holds no
    /// buffer meanwhile.
    fn wait_readable(&mut self) -> io::Result<()>;
}

/// Answers a client until it leaves, asks to quit, or sends bytes that are no request.
pub(crate) fn serve(connection: &mut impl Connection, server: &Database) -> io::Result<()> {
    loop {
        connection.wait_readable()?;
        let mut buffers = server.buffers.take();
        if !buffers.exchange(connection, server)? {
            return Ok(());
        }
        server.buffers.give_back(buffers);
    }
}

impl Buffers {
    /// Answers requests until no byte of them is left. Returns whether the connection stays open.
    ///
    /// Not inlined, so that a waiting fiber has no frame of it on its stack.
    #[inline(never)]
    fn exchange(
        &mut self,
        connection: &mut impl Connection,
        server: &Database,
    ) -> io::Result<bool> {
        loop {
            if self.read(connection)? == 0 {
                return Ok(false);
            }
            let goes_on = self.answer(connection, server)?;
            self.send(connection, server)?;
            if !goes_on || self.filled == 0 {
                return Ok(goes_on);
            }
        }
    }

    /// Carries out the requests that have come wholly.
    fn answer(&mut self, connection: &mut impl Connection, server: &Database) -> io::Result<bool> {
        let mut start = 0;
        loop {
            let input = &mut self.input[start..self.filled];
            match self.parser.parse(input) {
                Ok(Parsed::Request { bytes }) => {
                    if !server.carry_out(self.parser.arguments(input), &mut self.replies) {
                        return Ok(false);
                    }
                    start += bytes;
                }
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    self.replies.error(&[b"Protocol error: ", &error.0[..]].concat());
                    return Ok(false);
                }
            }
            if self.replies.bytes.len() >= ENOUGH_REPLIES {
                self.send(connection, server)?;
            }
        }
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(true)
    }

    fn send(&mut self, connection: &mut impl Connection, server: &Database) -> io::Result<()> {
        server.settle(&mut self.replies);
        connection.write_all(&self.replies.bytes)?;
        self.replies.clear();
        Ok(())
    }

    /// Reads behind the bytes that are there. The buffer grows with the bytes that have come.
    fn read(&mut self, connection: &mut impl Connection) -> io::Result<usize> {
        if self.filled == self.input.len() {
            if self.filled >= MOST_BYTES {
                return Err(io::Error::new(ErrorKind::InvalidData, "a request is too long"));
            }
            self.input.resize((2 * self.filled).max(READ_BYTES), 0);
        }
        loop {
            match connection.read(&mut self.input[self.filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(bytes);
                }
            }
        }
    }
}
