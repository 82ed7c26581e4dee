//! Code common to the echo servers.

use std::io::{self, Read, Write};

/// Bytes that an echo reads at once: as many messages as a client sends together.
pub(super) const BUFFER: usize = 16 * super::script::BYTES;

/// Sends back all received bytes until the stream ends.
pub(super) fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = [0; BUFFER];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read])?,
        }
    }
}
